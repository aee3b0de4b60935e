// The chain of acts that determines when the last step of a simulation ends.
#pragma once

#include <vector>

#include "simulator/clock/internal/simulated_ranks.h"
#include "simulator/clock/internal/step_details.h"
#include "task_graph/actors/simulated_run.h"

namespace tessera {

/// The acts from `begin` to the end of the last act, ascending. Each began at the time at which the
/// one before it ended, because it waited for its stream, for data or for the release of memory; or
/// later by the latency of the message between them. Where several acts ended at that time, the
/// chain continues on the same stream, then with the data.
///
///   begin     nanoseconds: acts that ended before are left out
///   requires  the run recorded its messages
///   source    critical path analysis: Yang and Miller, ICDCS 1988
///   time      O(acts + messages after `begin`)
std::vector<CriticalAct> critical_path(const SimulatedRanks& ranks, const SimulatedRun& run,
                                       int64_t begin);

}  // namespace tessera
