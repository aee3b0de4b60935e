#include "tools/cli/internal/commands/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/shell_quote.h"
#include "base/text/text.h"
#include "runtime/mpi/mpi_process.h"
#include "tools/cli/internal/command_line.h"
#include "tools/cli/internal/print/print.h"
#include "tools/launch/attempt.h"
#include "training/checkpoint/checkpoint.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// The processes of one job at most: 64 machines with as many as one process has ranks.
constexpr int kMaxProcesses = 65'536;

std::vector<std::string> split_words(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts)
    for (const std::string& word : split_text(text, ' '))
      if (!word.empty()) words.push_back(word);
  return words;
}

/// mpirun and srun read this word as the end of one program and the begin of another, wherever it
/// stands, and know no form that hides it.
void check_starts_one_program(const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), ":") == words.end()) return;
  refuse_usage("tessera launch cannot pass on the word ':'",
               "mpirun and srun would start what follows it as another program",
               "leave it out; a longer text with a colon in it is passed on");
}

void check_process_count(int count) {
  if (count <= kMaxProcesses) return;
  refuse_usage(fmt::format("tessera launch: --processes {} is not valid", count),
               fmt::format("a job has at most {} processes", grouped(kMaxProcesses)),
               "write as many processes as the plan has ranks, or leave -n out");
}

void check_is_complete(const LaunchCommand& launch) {
  if (launch.command.empty())
    refuse_usage("tessera launch is not told what to launch", "the command follows --",
                 "write tessera launch -n 4 -- train CONFIG --plan FILE --out DIR");
  if (fs::path(launch.command.front()).filename() == "tessera")
    refuse_usage("tessera launch is told to launch '" + launch.command.front() + "'",
                 "it starts this program, so the words after -- begin with a command of it",
                 "leave out '" + launch.command.front() + "' after --");
  check_starts_one_program(launch.command);
  check_starts_one_program(split_words(launch.launcher_arguments));
  check_process_count(launch.process_count.value_or(1));
}

/// The processes of a command without -n: one for each rank of its plan.
int ranks_of(const std::vector<std::string>& command) {
  const CommandLine line = parse_command_line(command);
  const auto* parsed = std::get_if<ParsedCommand>(&line);
  if (!parsed)
    refuse_usage("tessera launch got a command that only prints a text",
                 "a help or a version needs no processes", "write the command without launch");
  return parsed->command->rank_count();
}

/// The value of `--out` in the words of a command; "": none.
std::string out_of(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if ((words[i] == "--out" || words[i] == "-o") && i + 1 < words.size()) return words[i + 1];
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
  if (!step) return "from the start: there is no checkpoint yet";
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

/// The exit code of a process that was killed shows its signal, which tells nothing unless the
/// signal is the one that was passed on.
ExitCode exit_code_of(const Attempt& attempt) {
  const bool was_lost = attempt.code > 128 && !attempt.received_signal;
  return was_lost ? ExitCode::kRankLost : static_cast<ExitCode>(attempt.code);
}

/// The part of the command line in front of the command, quoted for a shell: "launch -n 4 --".
std::string own_words(const LaunchCommand& launch) {
  std::string text = "launch";
  for (const std::string& word : launch.words) {
    if (word == "--") break;
    text += " " + shell_quoted(word);
  }
  return text + " --";
}

/// The words that start the processes: their variables reach other machines through env.
LaunchedCommand launched_command(const LaunchCommand& launch, int processes,
                                 const std::vector<std::string>& words) {
  LaunchedCommand launched{make_launcher(processes, split_words(launch.launcher_arguments))};
  launched.words = {"env", std::string(kLaunchVariable) + "=" + own_words(launch)};
  std::error_code unknown;
  if (!launch.log_folder.empty())
    launched.words.push_back(std::string(kLogFolderVariable) + "=" +
                             fs::absolute(launch.log_folder, unknown).string());
  for (const std::string& word : start_words(program_file().string()))
    launched.words.push_back(word);
  launched.words.insert(launched.words.end(), words.begin(), words.end());
  launched.saves_when_stopped = words.front() == "train" && !out_of(words).empty();
  return launched;
}

/// How the processes are started, as far as the user may not expect it.
std::string start_text(const Launcher& launcher, int processes) {
  const unsigned cores = std::thread::hardware_concurrency();
  std::string text;
  for (const std::string& variable : launcher.options.environment) {
    if (variable.starts_with("OMPI_ALLOW_RUN_AS_ROOT="))
      text += "launch: mpirun runs as root (OMPI_ALLOW_RUN_AS_ROOT)\n";
    if (variable.starts_with("OMPI_MCA_rmaps_base_oversubscribe") && cores > 0 &&
        static_cast<unsigned>(processes) > cores)
      text += fmt::format("launch: {} share {} (OMPI_MCA_rmaps_base_oversubscribe)\n",
                          counted(processes, "process"), counted(cores, "core"));
  }
  return text;
}

}  // namespace

void LaunchCommand::describe(OptionParser& parser) {
  parser.command_after_dashes("COMMAND ARGUMENTS...", command);
  parser.number({"-n,--processes", "N",
                 "Processes to start, by srun in a Slurm job and by mpirun elsewhere; default: one "
                 "for each rank of the plan"},
                process_count, 1);
  parser.number({"--restarts", "N",
                 "Restart up to N times when a process is lost, from the last checkpoint in --out; "
                 "default: 0"},
                restarts, 0);
  parser.texts({"--mpirun-args", "WORDS",
                "Further words for mpirun or srun, separated by spaces: "
                "--mpirun-args=\"--hostfile hosts\""},
               launcher_arguments);
  parser.text({"--log-dir", "DIR", "Folder for one log per process, rank-NNNNN.log"}, log_folder);
  parser.check([this] { check_is_complete(*this); });
}

ExitCode LaunchCommand::run(Processes&) {
  MpiProcess::require();
  StopSignals signals;
  std::vector<std::string> started = command;
  const int processes = process_count ? *process_count : ranks_of(started);
  for (int restart = 1;; ++restart) {
    const LaunchedCommand launched = launched_command(*this, processes, started);
    if (restart == 1) tell(start_text(launched.launcher, processes));
    const Attempt attempt = run_attempt(launched, signals);
    if (attempt.code > 128 && attempt.first_lost && !attempt.received_signal)
      tell(lost_text(attempt, launched.launcher.words.front()));
    if (restart > restarts || !is_worth_another_attempt(attempt)) {
      print_bytes(attempt.output);
      return exit_code_of(attempt);
    }
    tell(fmt::format("launch: the processes ended with code {}; restart {} of {} {}\n",
                     attempt.code, restart, restarts, prepare_next(started)));
  }
}

}  // namespace tessera
