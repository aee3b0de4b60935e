// A task graph on a virtual clock: the actors, order lists and waits of the runtime, with durations
// that are given instead of kernels that run. This room sees task graphs and actors; it sees
// neither how they were derived nor the runtime, and it knows no prices.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "tasks/task_graph.h"
#include "trace/timeline.h"

namespace tessera {

/// How long an act of a task takes on a rank; of an exchange, the time until all that it pulls
/// is there. Whole nanoseconds count.
using ActTime = std::function<Seconds(Rank, TaskId)>;

struct SimulateOptions {
  int64_t steps = 3;
  /// A step begins when all ranks have ended the one before, as with Runtime::run; else each
  /// goes on as soon as it may, as with Runtime::begin_step (where the streams of one rank wait
  /// for each other at the end of a step).
  bool steps_meet = true;
  /// From the end of an act until another rank knows of it.
  Seconds message{0};
  /// Exchanges begin ahead of their turn where Task::after lets them, one after the other on a
  /// stream of their own: as between ranks that are members of their own. Else at their turn,
  /// as between threads.
  bool exchanges_ahead = false;
};

/// The last step of one rank.
struct RankTimes {
  Rank rank = 0;
  Seconds compute{0};   // in acts of kernels
  Seconds exchange{0};  // in exchanges, and in copies between a device and its host
  Seconds span{0};  // from the begin of its first act of kernels for a micro-batch to the end of
                    // the last; of any kernels without such
  Seconds idle_in_span{0};
  /// The part of the span in which no kernels run: the bubble per stage span.
  double bubble_of_span() const {
    return span.value() > 0 ? idle_in_span.value() / span.value() : 0;
  }
};

struct Simulation {
  Timeline timeline;             // of all steps: acts, waits, messages between ranks
  Seconds step{0};               // from the end of the last step but one to the end of the last
  std::vector<RankTimes> ranks;  // in ascending order
  /// The part of the ranks' time in a step in which no kernels run.
  double bubble() const;
};

/// Runs all ranks of `graph` on a virtual clock.
///   requires  check(graph); options.steps >= 1
///   throws    InternalError that says who waits for whom when the graph cannot go on
Simulation simulate(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
                    const SimulateOptions& options = {});

}  // namespace tessera
