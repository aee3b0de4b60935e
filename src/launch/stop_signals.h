// SIGTERM and SIGINT, which the training loop polls, so that a run never ends in the middle of a
// step.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace tessera {

/// Blocks the two signals during its lifetime, until received() takes one. A signal that was not
/// taken at the end is dropped, since nothing is left to stop.
///
///   threads  make it before any other thread; later threads inherit the signal mask
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that has arrived, once: "SIGTERM" or "SIGINT". The next signal then ends the
  /// program at once.
  std::optional<std::string> received();

 private:
  void unblock();

  sigset_t blocked_{}, before_{};
};

}  // namespace tessera
