// One step of propagation: between an op and its operands, and between the meshes of a tensor.
#pragma once

#include <vector>

#include "sharding/propagation/internal/open_ops.h"
#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {

/// Decides the sharding of the op and gives its axes to the dims of its operands that no mark
/// fixes, on the op's mesh and then on the other meshes of the operand. Opens each operand of which
/// a dim got an axis, and returns true when there is one.
bool propagate_step(PropagationState& state, OpId id, OpenOps& open);

/// Gives the dims of a tensor the axes of the same name and size that they have on another mesh.
/// Returns true when a dim got an axis.
bool propagate_between_meshes(std::vector<TensorPlacement>& placements);

}  // namespace tessera
