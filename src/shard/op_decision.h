// The sharding that the operands of an op ask for: candidates by factor, the one with priority
// wins.
#pragma once

#include "shard/candidates.h"
#include "shard/propagation_state.h"

namespace tessera {

/// The sharding of the op that its operands ask for now. For each factor the candidate with the
/// highest priority decides, extended by longer candidates that agree with it. A marked op keeps
/// its sharding.
OpSharding decide_sharding(PropagationState& state, OpId id);

/// Whether the axes begin with that of the micro-batches, in a graph that has it.
bool starts_with_time(const PropagationState& state, const Axes& axes);

}  // namespace tessera
