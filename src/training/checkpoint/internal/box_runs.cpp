#include "training/checkpoint/internal/box_runs.h"

namespace tessera {

BoxRuns::BoxRuns(const Box& from, const Box& to, const Box& common, int64_t element_bytes)
    : done_(common.empty()) {
  const Shape from_shape = from.shape(), to_shape = to.shape(), shape = common.shape();
  Dims from_strides = Dims::filled(shape.size(), element_bytes), to_strides = from_strides;
  for (int d = shape.size() - 2; d >= 0; --d) {
    from_strides[d] = from_strides[d + 1] * from_shape[d + 1];
    to_strides[d] = to_strides[d + 1] * to_shape[d + 1];
  }
  // Dims are merged into the run from the inside, as long as both boxes hold them whole.
  int outer = shape.size();
  run_.bytes = element_bytes;
  for (bool whole = true; whole && outer > 0; --outer) {
    const int d = outer - 1;
    run_.bytes *= shape[d];
    whole = shape[d] == from_shape[d] && shape[d] == to_shape[d];
  }
  for (int d = 0; d < shape.size(); ++d) {
    const size_t at = d;
    run_.from += (common.ranges[at].begin - from.ranges[at].begin) * from_strides[d];
    run_.to += (common.ranges[at].begin - to.ranges[at].begin) * to_strides[d];
    if (d >= outer) continue;
    extents_.push_back(shape[d]);
    from_strides_.push_back(from_strides[d]);
    to_strides_.push_back(to_strides[d]);
    index_.push_back(0);
  }
}

void BoxRuns::next() {
  for (int d = extents_.size() - 1; d >= 0; --d) {
    run_.from += from_strides_[d];
    run_.to += to_strides_[d];
    if (++index_[d] < extents_[d]) return;
    run_.from -= extents_[d] * from_strides_[d];
    run_.to -= extents_[d] * to_strides_[d];
    index_[d] = 0;
  }
  done_ = true;
}

}  // namespace tessera
