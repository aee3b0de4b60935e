// How a task graph is simulated.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tessera {

/// A rank whose fixed times and core times are multiplied.
struct Straggler {
  Rank rank = 0;
  double factor = 1;  // > 0
};

struct SimulateOptions {
  int64_t steps = 3;
  /// Does a step begin only when all ranks have ended the previous one, as with Runtime::run?
  /// Otherwise each rank continues as soon as it may, as with Runtime::begin_step (which also
  /// synchronizes the streams of a rank at the end of a step).
  bool barrier_between_steps = true;
  /// The latency of a message between ranks.
  Seconds message{0};
  /// Are exchanges prefetched from their issue points (Task::after), one after the other on a
  /// stream of their own, as between ranks in different processes? Otherwise they begin at their
  /// turn, as between threads.
  bool prefetch_exchanges = false;
  std::vector<Straggler> stragglers = {};  // each rank at most once
  uint64_t seed = 0;                       // of Demands::jitter
  /// Simulates one rank of each class of ranks that behave alike
  /// (simulator/clock/internal/rank_classes.h). Nothing but the timeline changes: it has the tracks
  /// of these ranks only, and their messages.
  bool uses_rank_symmetry = false;
  bool has_timeline = true;  // false: without it, a large run takes much less memory
  /// Finds Simulation::critical_path and Simulation::live, of the last step.
  bool has_path_and_memory = false;
};

}  // namespace tessera
