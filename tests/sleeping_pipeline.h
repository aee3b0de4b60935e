// Pipelines whose kernels sleep: simulated times can be compared with measured ones on any machine,
// because sleeping ranks need no cores.
#pragma once

#include <vector>

#include "compiler/lower/lower.h"
#include "runtime/device/device.h"
#include "simulator/clock/simulate.h"

namespace tessera {

/// The work of a stage for one micro-batch.
struct StageWork {
  Seconds forward{0}, input_gradient{0}, weight_gradient{0};
};

/// A training graph of one op per stage, called "stage.0", "stage.1", ..., on `micro_batches` rows.
///
///     y = x + w          sleeps for the time of forward
///     dx = dy            sleeps for the time of input_gradient
///     dw = sum_rows dy   sleeps for the time of weight_gradient
///
/// width  of a row: stages send 4 bytes for each of its elements
Graph sleeping_graph(const std::vector<StageWork>& stages, int64_t micro_batches,
                     int64_t width = 8);

/// The ranks of the stages: stage s is on ranks[s], or on rank s. Those with odd numbers compute on
/// fake devices when `mixed`.
struct SleepingStages {
  std::vector<Rank> ranks = {};
  bool mixed = false;
  int64_t width = 8;
  Bytes prefetch_window = kPrefetchWindow;
};
/// The ranks of the stages of a schedule on `devices` ranks: one stage each, or two each, in turn
/// or in a V.
std::vector<Rank> ranks_for(PipelineKind kind, int devices);

/// The compiled graph with one row per micro-batch.
Compiled sleeping_pipeline(const std::vector<StageWork>& stages, const SleepingStages& placed,
                           int64_t micro_batches, PipelineKind kind);

/// The time that the kernels of a task sleep on a host.
Seconds time_asleep(const Task& task);

/// The simulation in which only sleep takes time, and work on a device takes the time that `fake`
/// specifies.
Simulation simulate_sleep(const std::shared_ptr<const TaskGraph>& graph, int64_t steps,
                          const FakeDeviceOptions& fake = {}, bool barrier_between_steps = true);

}  // namespace tessera
