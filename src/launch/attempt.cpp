#include "launch/attempt.h"

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "launch/child_process.h"
#include "launch/rank_watch.h"

namespace tessera {
namespace {

/// The time that the launcher may take to end after the last of its processes.
constexpr auto kLauncherGrace = std::chrono::seconds(3);

}  // namespace

std::vector<std::string> launcher_command(int processes) {
  const bool is_slurm_job = std::getenv("SLURM_JOB_ID") && !std::getenv("OMPI_COMM_WORLD_SIZE");
  if (is_slurm_job) return {"srun", "-n", std::to_string(processes), "--kill-on-bad-exit=1"};
  return {"mpirun", "-n", std::to_string(processes)};
}

Attempt run_attempt(const std::vector<std::string>& words, StopSignals& signals) {
  const ChildProcess launcher(words);
  Attempt attempt;
  RankWatch ranks(launcher.id());
  while (launcher.read_output(attempt.output)) {
    ranks.update();
    if (ranks.is_without_processes(kLauncherGrace)) {
      attempt.launcher_hung = true;
      launcher.send(SIGKILL);
    }
    if (!signals.received()) continue;
    attempt.received_signal = true;
    launcher.send(SIGTERM);
  }
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
