#include "launch/stop_signals.h"

#include <ctime>

namespace tessera {

StopSignals::StopSignals() {
  sigemptyset(&waiting_);
  sigaddset(&waiting_, SIGTERM);
  sigaddset(&waiting_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &waiting_, &before_);
}

StopSignals::~StopSignals() {
  received();
  stop_waiting();
}

void StopSignals::stop_waiting() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<std::string> StopSignals::received() {
  const timespec at_once{};
  const int signal = sigtimedwait(&waiting_, nullptr, &at_once);
  if (signal != SIGTERM && signal != SIGINT) return std::nullopt;
  stop_waiting();
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace tessera
