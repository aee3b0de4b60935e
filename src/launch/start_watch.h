// Watches the processes of a run during start-up, before Liveness does: MPI waits for ever for a
// process that is stopped or killed then.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>

#include "base/threads/worker.h"
#include "comm/liveness.h"

namespace tessera {

/// Watches the processes of this machine during its lifetime, from a thread of its own.
///
///   launcher  the process that started them; they are its children
///   deadline  a process that has been stopped for this time is lost, and so is one that ended this
///             long ago
///   on_lost   is called once, from that thread
///   limit     as RankWatch
class StartWatch {
 public:
  using OnLost = std::function<void(const LostProcess&)>;
  StartWatch(pid_t launcher, Seconds deadline, OnLost on_lost);
  ~StartWatch() { is_ending_.store(true); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch(pid_t launcher, Seconds deadline, const OnLost& on_lost);

  std::atomic<bool> is_ending_{false};
  Worker thread_;  // last, so that it ends before the members that it uses
};

}  // namespace tessera
