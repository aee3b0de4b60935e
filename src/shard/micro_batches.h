// Time as an axis: the micro-batches of a step are one more axis of every mesh while placements are
// decided, and are unrolled when the program is made.
#pragma once

#include "base/split.h"
#include "shard/mesh_assignment.h"
#include "shard/propagate.h"

namespace tessera {

/// The meshes with the axis kMicroBatchAxis of size `count` in front. Its ranks are stand-ins:
/// (micro-batch, rank).
Meshes with_micro_batches(const Meshes& meshes, int64_t count);

/// What a placement on a mesh with micro-batches says of one of them.
struct InTime {
  bool by_micro_batch = false;  // divided by micro-batches (dim), or addends of them (dim -1)
  int dim = -1;
  ReduceOp reduce = ReduceOp::kSum;
  DistAttr attr;  // on the mesh without that axis
};
/// requires  where an axis list of a dim has the micro-batch axis, that comes first
InTime in_time(const DistAttr& attr, const MeshPtr& mesh);

/// The type of one micro-batch.
TensorType of_one_micro_batch(const TensorType& type, const InTime& time, int64_t count);

/// A parameter of a kernel as it is in micro-batch `index` of `count`.
LocalInt in_micro_batch(const LocalInt& value, int64_t count, int64_t index);

}  // namespace tessera
