// SIGTERM and SIGINT as a question that the loop of a run asks, instead of an end in the middle of
// a step.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace tessera {

/// While it lives, the two signals wait to be asked for. One that nobody asked for in the end is
/// dropped: there is nothing left to stop.
///
///   threads  make it before any other thread: those made later inherit that the signals wait
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, once: "SIGTERM" or "SIGINT". From then on the next one ends the program
  /// at once.
  std::optional<std::string> received();

 private:
  void stop_waiting();

  sigset_t waiting_{}, before_{};
};

}  // namespace tessera
