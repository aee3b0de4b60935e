#include "tools/launch/attempt.h"

#include <chrono>
#include <csignal>

#include "base/error.h"
#include "tools/launch/internal/rank_watch.h"
#include "tools/launch/internal/stop_request.h"

namespace tessera {
namespace {

/// The time that the launcher may take to end after the last of its processes.
constexpr auto kLauncherGrace = std::chrono::seconds(3);

}  // namespace

Attempt run_attempt(const LaunchedCommand& command, StopSignals& signals) {
  std::vector<std::string> words = command.launcher.words;
  words.insert(words.end(), command.words.begin(), command.words.end());
  const ChildProcess launcher(words, command.launcher.options);
  Attempt attempt;
  RankWatch ranks(launcher.id());
  StopRequest stop(command, launcher);
  while (launcher.read_output(attempt.output)) {
    ranks.update();
    if (ranks.is_without_processes(kLauncherGrace)) {
      attempt.launcher_hung = true;
      launcher.send(SIGKILL);
    }
    if (signals.take()) stop.add();
    stop.pass_on(ranks);
  }
  attempt.received_signal = stop.is_made();
  attempt.code = launcher.wait();
  if (const auto lost = ranks.first_lost()) attempt.first_lost = lost->number;
  return attempt;
}

bool is_worth_another_attempt(const Attempt& attempt) {
  if (attempt.received_signal) return false;
  const auto code = static_cast<ExitCode>(attempt.code);
  return code == ExitCode::kRankLost || code == ExitCode::kFailure || code == ExitCode::kInternal ||
         attempt.code > 128;
}

}  // namespace tessera
