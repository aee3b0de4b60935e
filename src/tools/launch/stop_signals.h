// The signals that ask a run to stop, which the training loop polls, so that a run never ends in
// the middle of a step.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace tessera {

/// Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 until received() takes one. A SIGHUP that is ignored,
/// as under nohup, stays ignored. At its end the signals stay blocked, and those that have arrived
/// are dropped: nothing is left to stop, and a program that is ending with its result must not die
/// of a signal that came too late.
///
///   threads  make it before any other thread; later threads inherit the signal mask
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The name of the signal that has arrived, such as "SIGTERM", once. The next signal then ends
  /// the program at once.
  std::optional<std::string> received();
  /// The number of the signal that has arrived, once. The signals stay blocked.
  std::optional<int> take();

 private:
  sigset_t blocked_{}, before_{};
};

}  // namespace tessera
