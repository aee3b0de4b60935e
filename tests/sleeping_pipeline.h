// Pipelines whose kernels sleep: simulated times can be compared with measured ones on any machine,
// because sleeping ranks need no cores.
#pragma once

#include <vector>

#include "device/device.h"
#include "lower/lower.h"
#include "sim/simulate.h"

namespace tessera {

/// What a stage does for one micro-batch.
struct StageWork {
  Seconds forward{0}, input_gradient{0}, weight_gradient{0};
};

/// A training graph of one op a stage, called "stage.0", "stage.1", ..., on `micro_batches` rows.
///
///     y = x + w          sleeps as long as forward takes
///     dx = dy            input_gradient
///     dw = sum_rows dy   weight_gradient
///
/// width  of a row: what goes from stage to stage is 4 bytes of it each
Graph sleeping_graph(const std::vector<StageWork>& stages, int64_t micro_batches,
                     int64_t width = 8);

/// Where the stages run: stage s on ranks[s], or on rank s; those of odd number compute on
/// fake devices when `mixed`.
struct SleepingStages {
  std::vector<Rank> ranks = {};
  bool mixed = false;
  int64_t width = 8;
  Bytes prefetch_window = kPrefetchWindow;
};
/// Where a schedule wants stages on `devices` ranks: one each, or two each, in turn or in a V.
std::vector<Rank> ranks_for(PipelineKind kind, int devices);

/// The graph with a row a micro-batch.
Compiled sleeping_pipeline(const std::vector<StageWork>& stages, const SleepingStages& placed,
                           int64_t micro_batches, PipelineKind kind);

/// How long the kernels of a task sleep on a host.
Seconds time_asleep(const Task& task);

/// The simulation in which only sleep takes time, and work on a device what `fake` says.
Simulation simulate_sleep(const std::shared_ptr<const TaskGraph>& graph, int64_t steps,
                          const FakeDeviceOptions& fake = {}, bool barrier_between_steps = true);

}  // namespace tessera
