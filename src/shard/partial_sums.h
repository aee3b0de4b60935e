// Partial sums that are passed on through linear ops, to be reduced later and once.
#pragma once

#include "shard/propagation_state.h"

namespace tessera {

/// Lets the op take partial sums of its inputs and make partial sums, on each axis on which that is
/// correct and moves less: the op is linear in these inputs, each has no other use, and the result
/// is not larger.
///   requires  the shardings of all ops are decided; ops in program order
void pass_partial_sums(PropagationState& state, OpId id);

}  // namespace tessera
