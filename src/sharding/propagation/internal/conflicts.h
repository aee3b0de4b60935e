// Conflicts: divisions of operands that the sharding of an op cannot follow.
#pragma once

#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {

/// Notes the divisions of operands that the sharding of the op does not follow: divisions by marks,
/// and divisions of dims that the operator needs whole.
void note_conflicts(PropagationState& state, OpId id);

}  // namespace tessera
