// Micro-batches as a mesh axis: the check of placements undoes what the compiler divided. With
// several micro-batches every mesh has one more axis, in front; with one micro-batch it has none.
#pragma once

#include <vector>

#include "sharding/propagation/op_sharding.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class MicroBatchAxis {
 public:
  MicroBatchAxis(const TaskGraph& tasks, int64_t micro_batches);

  int64_t micro_batches() const { return micro_batches_; }
  bool exists() const { return micro_batches_ > 1; }

  bool is_used_by(const DistAttr& attr) const { return exists() && attr.uses(kIndex); }
  bool is_used_by(const OpSharding& sharding) const { return exists() && sharding.uses(kIndex); }
  bool is_partial_in(const DistAttr& attr) const { return exists() && attr.is_partial_on(kIndex); }
  /// requires  is_partial_in(attr): partial axes ascend, so that this axis comes first
  static const PartialAxis& partial_axis(const DistAttr& attr) { return attr.partial.front(); }
  /// The partial axes over ranks: all but this one.
  std::vector<PartialAxis> over_ranks(std::vector<PartialAxis> partial) const;

  /// Those of `axes` that are axes of ranks, as the mesh without this axis numbers them.
  std::vector<int> axes_of_ranks(const std::vector<int>& axes) const;

  /// The coordinate in a micro-batch; of what is done once a step (-1) that in the first one, which
  /// is the same in all.
  Coordinate with_micro_batch(int micro_batch, const Coordinate& coordinate) const;
  /// The dims of a register as they are declared, on its mesh with this axis.
  DistAttr declared_dims(const Register& reg) const;
  /// The partial axes over ranks of a register as they are declared, on its mesh with this axis.
  std::vector<PartialAxis> declared_partial(const Register& reg) const;
  /// With this axis where the register is declared to hold the part of one micro-batch in a sum.
  std::vector<PartialAxis> declared_partial_with_micro_batch(const Register& reg) const;

 private:
  static constexpr int kIndex = 0;

  /// The index of an axis of a mesh in the mesh with this axis.
  int shifted(int axis) const { return exists() ? axis + 1 : axis; }

  int64_t micro_batches_;
  /// With this axis.
  IndexedVector<MeshIndex, MeshPtr> meshes_;
};

}  // namespace tessera
