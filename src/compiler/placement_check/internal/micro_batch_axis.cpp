#include "compiler/placement_check/internal/micro_batch_axis.h"

#include <algorithm>

#include "sharding/propagation/micro_batches.h"

namespace tessera {

MicroBatchAxis::MicroBatchAxis(const TaskGraph& tasks, int64_t micro_batches)
    : micro_batches_(micro_batches) {
  Meshes meshes;
  for (const MeshPtr& mesh : tasks.meshes) meshes.push_back({"", mesh});
  if (exists()) meshes = with_micro_batches(meshes, micro_batches);
  for (const NamedMesh& mesh : meshes) meshes_.push_back(mesh.mesh);
}

std::vector<PartialAxis> MicroBatchAxis::over_ranks(std::vector<PartialAxis> partial) const {
  if (exists()) std::erase_if(partial, [](const PartialAxis& p) { return p.axis == kIndex; });
  return partial;
}

std::vector<int> MicroBatchAxis::axes_of_ranks(const std::vector<int>& axes) const {
  if (!exists()) return axes;
  std::vector<int> ranks;
  for (int axis : axes)
    if (axis != kIndex) ranks.push_back(axis - 1);
  return ranks;
}

Coordinate MicroBatchAxis::with_micro_batch(int micro_batch, const Coordinate& coordinate) const {
  if (!exists()) return coordinate;
  Coordinate result{std::max(micro_batch, 0)};
  for (int64_t index : coordinate) result.push_back(index);
  return result;
}

DistAttr MicroBatchAxis::declared_dims(const Register& reg) const {
  DistAttr attr{meshes_[reg.mesh], {}, {}};
  for (int d = 0; d < std::ssize(reg.attr.dims); ++d) {
    const DimSharding& declared = reg.attr.dims[d];
    DimSharding dim{{}, declared.unit, declared.windows, declared.chunks};
    if (reg.micro_batch.index >= 0 && reg.micro_batch.dim == d) dim.axes.push_back(kIndex);
    for (int axis : declared.axes) dim.axes.push_back(shifted(axis));
    attr.dims.push_back(std::move(dim));
  }
  return attr;
}

std::vector<PartialAxis> MicroBatchAxis::declared_partial(const Register& reg) const {
  std::vector<PartialAxis> partial = reg.attr.partial;
  for (PartialAxis& p : partial) p.axis = shifted(p.axis);
  return partial;
}

std::vector<PartialAxis> MicroBatchAxis::declared_partial_with_micro_batch(
    const Register& reg) const {
  std::vector<PartialAxis> partial = declared_partial(reg);
  const bool is_part_of_sum = reg.micro_batch.index >= 0 && reg.micro_batch.dim < 0;
  if (is_part_of_sum) partial.insert(partial.begin(), {kIndex, ReduceOp::kSum});
  return partial;
}

}  // namespace tessera
