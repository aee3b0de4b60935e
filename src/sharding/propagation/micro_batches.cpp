#include "sharding/propagation/micro_batches.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<int> without_time(const std::vector<int>& axes) {
  std::vector<int> rest;
  for (int axis : axes)
    if (axis != kMicroBatchAxisIndex) rest.push_back(axis - 1);
  return rest;
}

}  // namespace

Meshes with_micro_batches(const Meshes& meshes, int64_t count) {
  Meshes result;
  for (const NamedMesh& named : meshes) {
    Shape shape{count};
    std::vector<std::string> axes{std::string(kMicroBatchAxis)};
    AxisWeights weights{{}};
    for (int64_t extent : named.mesh->shape()) shape.push_back(extent);
    weights.insert(weights.end(), named.mesh->weights().begin(), named.mesh->weights().end());
    axes.insert(axes.end(), named.mesh->axes().begin(), named.mesh->axes().end());
    const Rank stride =
        *std::max_element(named.mesh->ranks().begin(), named.mesh->ranks().end()) + 1;
    std::vector<Rank> ranks;
    for (int64_t i = 0; i < count; ++i)
      for (Rank rank : named.mesh->ranks()) ranks.push_back(static_cast<Rank>(i) * stride + rank);
    result.push_back(
        {named.name, std::make_shared<const Mesh>(shape, std::move(axes), std::move(ranks),
                                                  std::move(weights))});
  }
  return result;
}

MicroBatchPlacement micro_batch_placement(const DistAttr& attr, const MeshPtr& mesh) {
  MicroBatchPlacement time;
  time.attr.mesh = mesh;
  for (int d = 0; d < std::ssize(attr.dims); ++d) {
    const auto& axes = attr.dims[d].axes;
    const auto found = std::find(axes.begin(), axes.end(), kMicroBatchAxisIndex);
    ensure(found == axes.end() || found == axes.begin(),
           "micro-batches divide a dim before the mesh does");
    if (found != axes.end()) {
      time.by_micro_batch = true;
      time.dim = d;
    }
    ensure(found == axes.end() || (attr.dims[d].windows.empty() && attr.dims[d].chunks == 1),
           "a micro-batch is one range of rows");
    time.attr.dims.push_back(
        {without_time(axes), attr.dims[d].unit, attr.dims[d].windows, attr.dims[d].chunks});
  }
  for (const PartialAxis& p : attr.partial) {
    if (p.axis == kMicroBatchAxisIndex) {
      time.by_micro_batch = true;
      time.reduce = p.reduce;
    } else {
      time.attr.partial.push_back({p.axis - 1, p.reduce});
    }
  }
  return time;
}

TensorType of_one_micro_batch(const TensorType& type, const MicroBatchPlacement& time,
                              int64_t count) {
  TensorType result = type;
  if (time.dim < 0) return result;
  ensure(type.shape[time.dim] % count == 0, "the number of micro-batches divides the batch");
  result.shape[time.dim] /= count;
  return result;
}

LocalInt in_micro_batch(const LocalInt& value, int64_t count, int64_t index) {
  LocalInt result(value.constant);
  for (const LocalInt::Term& term : value.terms) {
    Split split = term.split;
    split.axes.clear();
    int64_t begin = 0;
    for (const AxisPart& part : term.split.axes) {
      if (part.axis != kMicroBatchAxisIndex) {
        split.axes.push_back({part.axis - 1, part.parts, part.weights});
        continue;
      }
      ensure(split.windows.empty() && split.chunks == 1, "a micro-batch is one range of rows");
      const Range rows = balanced_part(term.split.extent, count, index);
      split.extent = rows.size();
      begin = rows.begin * split.unit;
    }
    const bool is_begin = term.kind == LocalInt::Term::Kind::kBegin;
    const LocalInt inside = is_begin ? LocalInt(begin) + LocalInt::begin_of(std::move(split))
                                     : LocalInt::size_of(std::move(split));
    result = result + term.times * inside;
  }
  return result;
}

int64_t micro_batch_step(const LocalInt& value, int64_t count) {
  int64_t step = 0;
  for (const LocalInt::Term& term : value.terms)
    for (const AxisPart& part : term.split.axes) {
      if (part.axis != kMicroBatchAxisIndex) continue;
      ensure(term.split.extent % count == 0, "micro-batches have equal parts of the batch");
      if (term.kind == LocalInt::Term::Kind::kBegin)
        step += term.times * (term.split.extent / count) * term.split.unit;
    }
  return step;
}

}  // namespace tessera
