// When a search for a plan ends before it is complete.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "base/units.h"
#include "tools/launch/stop_signals.h"

namespace tessera {

/// After a time, or after a signal: SIGINT, SIGTERM, SIGHUP or SIGUSR1. The best plan so far is
/// then the answer. A second signal ends the program at once, with 128 and its number.
///
///   threads  make it before any other thread; has_come() is for any number of callers
class SearchEnd {
 public:
  /// The time from now on.
  void set_limit(Seconds limit);
  /// Says so once on standard error, if it is a signal.
  bool has_come();

 private:
  std::mutex mutex_;
  StopSignals signals_;
  bool is_stopped_ = false;
  std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace tessera
