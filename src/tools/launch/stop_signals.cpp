#include "tools/launch/stop_signals.h"

#include <ctime>
#include <utility>

namespace tessera {
namespace {

constexpr std::pair<int, const char*> kStopSignals[] = {
    {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}};

bool is_ignored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&blocked_);
  for (const auto& [signal, name] : kStopSignals)
    if (signal != SIGHUP || !is_ignored(SIGHUP)) sigaddset(&blocked_, signal);
  pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
}

StopSignals::~StopSignals() {
  while (take()) {
  }
}

std::optional<int> StopSignals::take() {
  const timespec at_once{};
  const int signal = sigtimedwait(&blocked_, nullptr, &at_once);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

std::optional<std::string> StopSignals::received() {
  const auto taken = take();
  if (!taken) return std::nullopt;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  for (const auto& [signal, name] : kStopSignals)
    if (signal == *taken) return name;
  return std::nullopt;
}

}  // namespace tessera
