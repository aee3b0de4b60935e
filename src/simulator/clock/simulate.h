// A task graph on a simulated clock: the actors, order lists and waits of the runtime, with given
// durations or demands instead of kernels that run. This module knows task graphs and actors. It
// does not know how they were derived, nor the runtime, and it has no cost model.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/timeline/timeline.h"
#include "base/units.h"
#include "simulator/clock/demands.h"
#include "simulator/clock/internal/simulate_options.h"
#include "simulator/clock/internal/step_details.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The duration of an act of a task on a rank; for an exchange, the time until all data has
/// arrived. It is rounded to nanoseconds.
using ActTime = std::function<Seconds(Rank, TaskId)>;

/// The last step of one rank.
struct RankTimes {
  Rank rank = 0;
  Rank representative =
      0;  // the rank that was simulated for it: itself unless ranks are represented by others
  Seconds compute{0};   // time in acts of kernels
  Seconds exchange{0};  // time in exchanges, and in copies between a device and its host
  /// The time from the begin of its first act of kernels for a micro-batch to the end of the last
  /// one; of all kernels if none is for a micro-batch.
  Seconds span{0};
  Seconds idle_in_span{0};
  /// The time in exchanges and copies while no kernel of the rank runs.
  Seconds exposed{0};
  /// The fraction of the span in which no kernels run: the bubble of the stage's span.
  double bubble_of_span() const {
    return span.value() > 0 ? idle_in_span.value() / span.value() : 0;
  }
};

struct Simulation {
  Timeline timeline;  // of all steps: acts, waits, messages between ranks
  Seconds step{0};    // from the end of the second to last step to the end of the last one
  std::vector<RankTimes> ranks;     // in ascending order
  int64_t acts = 0;                 // that were simulated, in all steps
  Seconds end{0};                   // of the last step that was simulated
  std::vector<RankActs> last_step;  // of the simulated ranks, in ascending order
  /// With SimulateOptions::has_path_and_memory, of the last step.
  std::vector<CriticalAct> critical_path = {};
  std::vector<LiveRange> live = {};
  /// The fraction of the ranks' time in a step in which no kernels run.
  double bubble() const;
};

/// Simulates all ranks of `graph`.
///   requires  check(graph); options.steps >= 1
///   throws    InternalError that names what each actor waits for when no actor can act
///   time      as simulate_actors, for the acts of the classes of ranks
///             Where a barrier is between the steps, messages take no time and nothing is random,
///             all steps are alike, since between two of them nothing is remembered: every register
///             is empty and every slot is free. Without a timeline one of them is simulated
Simulation simulate(std::shared_ptr<const TaskGraph> graph, const Demands& demands,
                    const SimulateOptions& options = {});
/// The same with acts that share nothing.
Simulation simulate(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
                    const SimulateOptions& options = {});

}  // namespace tessera
