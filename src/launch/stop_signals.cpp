#include "launch/stop_signals.h"

#include <ctime>

namespace tessera {

StopSignals::StopSignals() {
  sigemptyset(&blocked_);
  sigaddset(&blocked_, SIGTERM);
  sigaddset(&blocked_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
}

StopSignals::~StopSignals() {
  received();
  unblock();
}

void StopSignals::unblock() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<std::string> StopSignals::received() {
  const timespec at_once{};
  const int signal = sigtimedwait(&blocked_, nullptr, &at_once);
  if (signal != SIGTERM && signal != SIGINT) return std::nullopt;
  unblock();
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace tessera
