// What a simulation can tell about its last step besides its time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// One act of the last step, in [start, end) nanoseconds from the end of the step before.
struct TimedAct {
  TaskId task;
  int64_t start = 0, end = 0;

  bool operator==(const TimedAct&) const = default;
};

/// The acts of a rank that was simulated, by start, then by end.
struct RankActs {
  Rank rank = 0;
  std::vector<TimedAct> acts;

  bool operator==(const RankActs&) const = default;
};

/// One act of the critical path: the chain of acts that determines when a step ends.
struct CriticalAct {
  Rank rank = 0;  // of several identical ranks, the simulated one
  TaskId task;
  Seconds begin{0}, end{0};
};

/// A slot of a register in an arena, from the begin of the act that fills it to its release by its
/// last reader. A register that no other task reads is live during the act.
struct LiveRange {
  Rank rank = 0;  // of several identical ranks, the simulated one
  RegisterIndex reg;
  int slot = 0;
  Seconds begin{0}, end{0};
  Seconds filled{0};  // the end of the act that fills it
};

}  // namespace tessera
