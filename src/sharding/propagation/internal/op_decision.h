// The sharding that the operands of an op propose. Each proposes candidates by factor, and the
// candidate with priority is chosen.
#pragma once

#include "sharding/propagation/candidates.h"
#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {

/// The sharding of the op that its operands propose now. For each factor, the candidate with the
/// highest priority decides, extended by longer candidates that agree with it. A marked op keeps
/// its sharding.
OpSharding decide_sharding(PropagationState& state, OpId id);

/// Do the axes begin with the axis of the micro-batches, in a graph that has it?
bool starts_with_time(const PropagationState& state, const Axes& axes);

}  // namespace tessera
