// When the slots of registers hold data, in a simulation.
#pragma once

#include <vector>

#include "simulator/clock/internal/simulated_ranks.h"
#include "simulator/clock/internal/step_details.h"
#include "task_graph/actors/simulated_run.h"

namespace tessera {

/// The ranges that end after `begin`, in no particular order.
///
///   begin     nanoseconds
///   requires  the run recorded its messages
///   time      O(acts + registers of the arenas + messages)
std::vector<LiveRange> live_ranges(const SimulatedRanks& ranks, const SimulatedRun& run,
                                   int64_t begin);

}  // namespace tessera
