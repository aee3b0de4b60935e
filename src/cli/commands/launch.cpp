#include "cli/commands/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "checkpoint/checkpoint.h"
#include "comm/mpi/mpi_process.h"
#include "launch/attempt.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

void check_is_complete(const LaunchCommand& launch) {
  if (launch.command.empty())
    refuse_usage("tessera launch is not told what to launch", "the command follows --",
                 "write tessera launch -n 4 -- train CONFIG --plan FILE --out DIR");
  if (!launch.process_count)
    refuse_usage("tessera launch is not told how many processes to start",
                 "each process runs one rank of the plan",
                 "write -n N, where N is the number of ranks of the plan");
}

/// The value of `--out` in the words of a command; "": none.
std::string out_of(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--out" && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--out=")) return words[i].substr(6);
  }
  return "";
}

/// Changes the words for the next attempt: it continues from the last checkpoint, or starts again
/// when there is none yet.
///   returns  the start as text for readers
std::string prepare_next(std::vector<std::string>& words) {
  const std::string out = out_of(words);
  if (out.empty()) return "from the start: without --out there are no checkpoints";
  RealFileSystem disk;
  const auto step = disk.is_folder(fs::path(out) / "checkpoints")
                        ? CheckpointFolder(disk, fs::path(out) / "checkpoints").latest()
                        : std::nullopt;
  if (!step) {
    std::error_code ignored;
    fs::remove(fs::path(out) / "metrics.jsonl", ignored);  // its steps are lost
    return "from the start: there is no checkpoint yet";
  }
  if (std::find(words.begin(), words.end(), "--resume") == words.end())
    words.emplace_back("--resume");
  return fmt::format("from the checkpoint of step {}", *step);
}

std::string lost_text(const Attempt& attempt, const std::string& launcher) {
  if (!attempt.launcher_hung) return fmt::format("launch: rank {} was lost\n", *attempt.first_lost);
  return fmt::format(
      "launch: {} did not end after its processes; rank {} was the first of this machine to end\n",
      launcher, *attempt.first_lost);
}

/// The exit code of a process that was killed shows its signal.
ExitCode exit_code_of(const Attempt& attempt) {
  return attempt.code > 128 ? ExitCode::kRankLost : static_cast<ExitCode>(attempt.code);
}

}  // namespace

void LaunchCommand::describe(OptionParser& parser) {
  parser.command_after_dashes("COMMAND ARGUMENTS...", command);
  parser.number(
      {"-n,--processes", "N", "Processes to start, by srun in a Slurm job and by mpirun elsewhere"},
      process_count, 1);
  parser.number({"--restarts", "N",
                 "Restart up to N times when a process is lost, from the last checkpoint in --out; "
                 "default: 0"},
                restarts, 0);
  parser.check([this] { check_is_complete(*this); });
}

ExitCode LaunchCommand::run(Processes&) {
  MpiProcess::require();
  StopSignals signals;
  std::vector<std::string> words = command;
  for (int restart = 1;; ++restart) {
    std::vector<std::string> launch = launcher_command(*process_count);
    launch.push_back(fs::read_symlink("/proc/self/exe").string());
    launch.insert(launch.end(), words.begin(), words.end());
    const Attempt attempt = run_attempt(launch, signals);
    if (attempt.code > 128 && attempt.first_lost && !attempt.received_signal)
      std::cerr << lost_text(attempt, launch.front());
    if (restart > restarts || !is_worth_another_attempt(attempt)) {
      std::cout << attempt.output << std::flush;
      return exit_code_of(attempt);
    }
    std::cerr << fmt::format("launch: the processes ended with code {}; restart {} of {} {}\n",
                             attempt.code, restart, restarts, prepare_next(words));
  }
}

}  // namespace tessera
