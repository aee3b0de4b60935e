// Partial sums that pass through linear ops, so that they are reduced once and later.
#pragma once

#include "shard/propagation_state.h"

namespace tessera {

/// Lets the op take partial sums as inputs and produce partial sums, on each axis on which that is
/// correct and communicates less: the op is linear in these inputs, each has no other use, and the
/// result is not larger.
///   requires  the shardings of all ops are decided; calls are in program order
void pass_partial_sums(PropagationState& state, OpId id);

}  // namespace tessera
