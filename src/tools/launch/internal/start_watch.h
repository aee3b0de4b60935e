// Watches the processes of a run during start-up, before Liveness does: MPI waits for ever for a
// process that is stopped or killed then.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <optional>

#include "base/threads/worker.h"
#include "runtime/comm/liveness.h"
#include "tools/launch/internal/rank_watch.h"

namespace tessera {

/// Finds the first process that is lost during start-up.
///
///   launcher  the process that started them; they are its children
///   deadline  a process that has been stopped for this time is lost, and so is one that ended this
///             long ago
///   limit     as RankWatch
class StartLosses {
 public:
  StartLosses(pid_t launcher, Seconds deadline);
  /// Reads the states of the processes; call it several times a second.
  std::optional<LostProcess> check(RankWatch::Clock::time_point now);

 private:
  const RankWatch::Clock::duration max_time_;
  RankWatch ranks_;
  std::optional<RankWatch::Clock::time_point> lost_at_;
};

/// Watches the processes of this machine during its lifetime, from a thread of its own.
///
///   launcher, deadline  as StartLosses
///   on_lost             is called once, from that thread
class StartWatch {
 public:
  using OnLost = std::function<void(const LostProcess&)>;
  StartWatch(pid_t launcher, Seconds deadline, OnLost on_lost);
  ~StartWatch() { is_ending_.store(true); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  std::atomic<bool> is_ending_{false};
  Worker thread_;  // last, so that it ends before the members that it uses
};

}  // namespace tessera
