// The stages of least time for one number of micro-batches: the dynamic programming of the search
// for pipelines.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/pipeline/device_runs.h"
#include "planner/pipeline/pipeline_choice.h"
#include "planner/pipeline/segment_costs.h"

namespace tessera {

/// The bytes of a stage with n micro-batches in flight.
double memory_of(const UnitCost& cost, double in_flight);

/// Where a stage that begins at a unit ends at the latest: it has no boundary inside.
int last_end(const std::vector<int>& boundaries, int unit, int units);

/// Where a stage that begins at a unit on these ranks ends at the latest: before the first unit
/// that may not be there.
int last_end(const std::vector<UnitRanks>& allowed, int unit, Rank first, int size, int units);

/// What a stage adds to the time of one micro-batch: under 1f1b all, under schedules that split the
/// backward the weight gradients fill bubbles.
enum class ChainOf { kWholeBackward, kSplitBackward };

/// The bytes that a stage may have.
struct RunCapacities {
  const DeviceRuns& runs;
  const std::vector<double>& reserved_memory;  // by rank; empty: none

  double at(const SegmentCosts& costs, Rank first, int size) const;
};

/// Pipelines of each number of stages, for several limits of the time of the busiest stage: the
/// shortest chain within it. Their times are estimates without a clock.
std::vector<PipelineChoice> shortest_chains(const LayerSequence& sequence,
                                            const RunCapacities& capacities,
                                            const SegmentCosts& costs,
                                            const StageSearchOptions& options,
                                            int64_t micro_batches, ChainOf chain,
                                            const EqualStages& equal);

}  // namespace tessera
