// Passes a stop signal on to the processes of a launcher.
#pragma once

#include <chrono>
#include <optional>
#include <set>

#include "tools/launch/internal/launcher.h"
#include "tools/launch/internal/rank_watch.h"

namespace tessera {

/// The stop signals that one attempt has received.
class StopRequest {
 public:
  StopRequest(const LaunchedCommand& command, const ChildProcess& launcher)
      : command_(command), launcher_(launcher) {}

  /// Counts one more stop signal.
  void add();
  /// Passes the signals on; call it several times a second, after ranks.update(). A process that
  /// is still starting is asked when it polls for signals.
  void pass_on(const RankWatch& ranks);

  bool is_made() const { return count_ > 0; }

 private:
  void ask_to_save(const RankWatch& ranks);
  void end_now(const RankWatch& ranks);

  const LaunchedCommand& command_;
  const ChildProcess& launcher_;
  int count_ = 0, passed_ = 0;
  std::chrono::steady_clock::time_point first_at_{};
  std::set<pid_t> asked_;  // processes, or the launcher
};

}  // namespace tessera
