// The signals that ask a run to stop, which the training loop polls, so that a run never ends in
// the middle of a step.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace tessera {

/// Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 during its lifetime, until received() takes one. A
/// SIGHUP that is ignored, as under nohup, stays ignored. A signal that was not taken at the end is
/// dropped, since nothing is left to stop.
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
  void unblock();

  sigset_t blocked_{}, before_{};
};

}  // namespace tessera
