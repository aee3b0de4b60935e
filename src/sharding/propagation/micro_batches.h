// Micro-batches as a mesh axis. They are one more axis of every mesh while placements are decided.
// In the program that is made of it their index is symbolic.
#pragma once

#include "base/tensor/split.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/propagate.h"

namespace tessera {

/// The meshes with the axis kMicroBatchAxis of size `count` in front. Their ranks are pairs
/// (micro-batch, rank), which are numbered as ranks are.
Meshes with_micro_batches(const Meshes& meshes, int64_t count);

/// The meaning of a placement on a mesh with the axis of micro-batches for one micro-batch.
struct MicroBatchPlacement {
  bool by_micro_batch = false;  // divided by micro-batches (dim), or partial over them (dim is -1)
  int dim = -1;
  ReduceOp reduce = ReduceOp::kSum;
  DistAttr attr;  // on the mesh without that axis
};
/// requires  the axis of micro-batches comes first in the axis list of a dim
MicroBatchPlacement micro_batch_placement(const DistAttr& attr, const MeshPtr& mesh);

/// The type of one micro-batch.
TensorType of_one_micro_batch(const TensorType& type, const MicroBatchPlacement& time,
                              int64_t count);

/// The value of a kernel parameter in micro-batch `index` of `count`.
LocalInt in_micro_batch(const LocalInt& value, int64_t count, int64_t index);
/// What is added to it from one micro-batch to the next:
///
///     in_micro_batch(value, count, i) = in_micro_batch(value, count, 0) + i * micro_batch_step
int64_t micro_batch_step(const LocalInt& value, int64_t count);

}  // namespace tessera
