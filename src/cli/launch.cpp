// Starts a command as several processes, and again when one of them was lost: from the last
// checkpoint.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "comm/mpi/mpi_process.h"
#include "launch/rank_watch.h"
#include "launch/stop_signals.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kLookMilliseconds = 20;
/// Between the end of the last process and that of the launcher.
constexpr auto kGraceOfTheLauncher = std::chrono::seconds(3);

/// The value of `--out` in a command's words; "": none.
std::string out_of(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--out" && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--out=")) return words[i].substr(6);
  }
  return "";
}

/// Of a mistake the next attempt would find the same; a signal to the whole job was meant.
bool is_worth_another_attempt(int code) {
  return code == static_cast<int>(ExitCode::kRankLost) ||
         code == static_cast<int>(ExitCode::kFailure) ||
         code == static_cast<int>(ExitCode::kInternal) || code > 128;
}

/// How an attempt ended.
struct Attempt {
  int code = 0;
  std::string output;  // what it wrote to standard output: only the last one's counts
  bool was_told_to_stop = false;
  bool was_left_alone = false;  // the launcher did not end by itself
  std::optional<int> lost;      // the rank that ended first, as far as it could be seen
};

std::vector<std::string> launcher(int processes) {
  const bool is_slurm_job = std::getenv("SLURM_JOB_ID") && !std::getenv("OMPI_COMM_WORLD_SIZE");
  if (is_slurm_job) return {"srun", "-n", std::to_string(processes), "--kill-on-bad-exit=1"};
  return {"mpirun", "-n", std::to_string(processes)};
}

/// A program that was started with nothing to read; what it writes to standard output is kept.
class Child {
 public:
  explicit Child(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(words[0], errno);
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);  // ours waits for SIGTERM
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error =
        posix_spawnp(&process_, words[0].c_str(), &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (error != 0) cannot_start(words[0], error);
  }
  ~Child() { close(output_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t process() const { return process_; }
  void send(int signal) const { kill(process_, signal); }

  /// Takes what it has written, waiting for a little while.  returns  false when it writes no more
  bool read_output(std::string& output) const {
    pollfd waiting{output_, POLLIN, 0};
    const bool had_ended = has_ended();  // what it started may hold its output still, such as an
                                         // ssh to a machine that is cut off
    if (poll(&waiting, 1, kLookMilliseconds) <= 0) return !had_ended;
    std::array<char, 4096> buffer{};
    const ssize_t count = read(output_, buffer.data(), buffer.size());
    if (count > 0) output.append(buffer.data(), static_cast<size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
  }

  /// Its exit code, or 128 and the signal that ended it.
  int wait() const {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool has_ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process_;
  }

  [[noreturn]] static void cannot_start(const std::string& program, int error) {
    throw UserError("cannot start " + program, std::strerror(error),
                    "install MPI, such as openmpi-bin, and see that " + program + " is on PATH",
                    ExitCode::kMissingInput);
  }

  pid_t process_ = 0;
  int output_ = -1;
};

Attempt run_to_end(const std::vector<std::string>& words, StopSignals& signals) {
  const Child child(words);
  Attempt attempt;
  RankWatch ranks(child.process());
  while (child.read_output(attempt.output)) {
    ranks.look();
    if (ranks.is_left_alone(kGraceOfTheLauncher)) {
      attempt.was_left_alone = true;
      child.send(SIGKILL);
    }
    if (!signals.received()) continue;
    attempt.was_told_to_stop = true;
    child.send(SIGTERM);
  }
  attempt.code = child.wait();
  if (const auto lost = ranks.first_lost()) attempt.lost = lost->number;
  return attempt;
}

/// Makes the words of the next attempt: from the last checkpoint, or from the start when there is
/// none yet.
std::string prepare_next(std::vector<std::string>& words) {
  const std::string out = out_of(words);
  if (out.empty()) return "from the start: without --out there are no checkpoints";
  RealFileSystem disk;
  const auto step = disk.is_folder(fs::path(out) / "checkpoints")
                        ? CheckpointFolder(disk, fs::path(out) / "checkpoints").latest()
                        : std::nullopt;
  if (!step) {
    std::error_code ignored;
    fs::remove(fs::path(out) / "metrics.jsonl", ignored);  // of the steps that are lost
    return "from the start: there is no checkpoint yet";
  }
  if (std::find(words.begin(), words.end(), "--resume") == words.end())
    words.emplace_back("--resume");
  return fmt::format("from the checkpoint of step {}", *step);
}

std::string lost_text(const Attempt& attempt, const std::string& launcher) {
  if (!attempt.was_left_alone) return fmt::format("launch: rank {} was lost\n", *attempt.lost);
  return fmt::format(
      "launch: {} did not end after its processes; rank {} was the first of this machine to end\n",
      launcher, *attempt.lost);
}

/// A process that was killed shows in the launcher's code as a signal.
ExitCode as_exit_code(int code) {
  return code > 128 ? ExitCode::kRankLost : static_cast<ExitCode>(code);
}

}  // namespace

ExitCode run_launch(const Arguments& arguments) {
  MpiProcess::require();
  StopSignals signals;
  std::vector<std::string> words = arguments.launched;
  for (int restarts = 0;; ++restarts) {
    std::vector<std::string> command = launcher(*arguments.processes);
    command.push_back(fs::read_symlink("/proc/self/exe").string());
    command.insert(command.end(), words.begin(), words.end());
    const Attempt attempt = run_to_end(command, signals);
    if (attempt.code > 128 && attempt.lost && !attempt.was_told_to_stop)
      std::cerr << lost_text(attempt, command.front());
    if (restarts == arguments.restarts || attempt.was_told_to_stop ||
        !is_worth_another_attempt(attempt.code)) {
      std::cout << attempt.output << std::flush;
      return as_exit_code(attempt.code);
    }
    std::cerr << fmt::format("launch: the processes ended with code {}; restart {} of {} {}\n",
                             attempt.code, restarts + 1, arguments.restarts, prepare_next(words));
  }
}

}  // namespace tessera
