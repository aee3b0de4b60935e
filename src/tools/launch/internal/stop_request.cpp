#include "tools/launch/internal/stop_request.h"

#include <csignal>

namespace tessera {
namespace {

/// The time after which a launcher without a process on this machine is believed to have all of
/// them on others.
constexpr auto kStartOnOtherMachines = std::chrono::seconds(5);

}  // namespace

void StopRequest::add() {
  if (count_++ == 0) first_at_ = std::chrono::steady_clock::now();
}

void StopRequest::pass_on(const RankWatch& ranks) {
  if (count_ == 0) return;
  if (command_.saves_when_stopped && count_ == 1) return ask_to_save(ranks);
  const int last_that_ends = command_.saves_when_stopped ? 2 : 1;
  if (passed_ == count_) return;
  passed_ = count_;
  count_ <= last_that_ends ? end_now(ranks) : launcher_.send(SIGKILL);
}

/// Signals each process once, because a second signal ends it without a checkpoint. Processes on
/// other machines end with those of this one: a signal to any process stops all after one step.
void StopRequest::ask_to_save(const RankWatch& ranks) {
  if (command_.launcher.forwards_sigterm) {
    if (asked_.insert(launcher_.id()).second) launcher_.send(SIGTERM);
    return;
  }
  for (const pid_t process : ranks.polling_for_signals())
    if (asked_.insert(process).second) kill(process, SIGTERM);
  const bool are_elsewhere = asked_.empty() && ranks.alive().empty() &&
                             std::chrono::steady_clock::now() - first_at_ > kStartOnOtherMachines;
  // mpirun forwards SIGUSR1 to all processes and does not end them.
  if (are_elsewhere && asked_.insert(launcher_.id()).second) launcher_.send(SIGUSR1);
}

void StopRequest::end_now(const RankWatch& ranks) {
  if (command_.launcher.forwards_sigterm) return launcher_.send(SIGTERM);
  if (ranks.alive().empty()) launcher_.send(SIGKILL);
  for (const pid_t process : ranks.alive()) kill(process, SIGTERM);
}

}  // namespace tessera
