// Iterates over the positions of a box in row-major order and keeps the offset of each in several
// strided layouts.
#pragma once

#include <array>

#include "base/tensor/dims.h"

namespace tessera {

/// Every step costs O(1) on average. A box with a zero extent has no positions, so its first offset
/// must not be used.
template <size_t kLayouts>
class Odometer {
 public:
  Odometer(const Dims& extents, const std::array<Dims, kLayouts>& strides)
      : extents_(extents), strides_(strides) {
    index_ = Dims::filled(extents.size(), 0);
  }

  /// The offset of the present position in a layout.
  int64_t offset(size_t layout) const { return offsets_[layout]; }

  /// Goes to the next position; from the last one it goes to the first.
  void step() {
    for (int dim = extents_.size() - 1; dim >= 0; --dim) {
      move(dim, 1);
      if (++index_[dim] < extents_[dim]) return;
      move(dim, -extents_[dim]);
      index_[dim] = 0;
    }
  }

 private:
  void move(int dim, int64_t count) {
    for (size_t layout = 0; layout < kLayouts; ++layout)
      offsets_[layout] += count * strides_[layout][dim];
  }

  Dims extents_;
  std::array<Dims, kLayouts> strides_;
  Dims index_;
  std::array<int64_t, kLayouts> offsets_{};
};

}  // namespace tessera
