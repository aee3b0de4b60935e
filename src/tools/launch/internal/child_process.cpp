#include "tools/launch/internal/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kPollMilliseconds = 20;

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw UserError("cannot start " + program, std::strerror(error),
                  "install MPI, such as openmpi-bin, and check that " + program + " is on PATH",
                  ExitCode::kMissingInput);
}

/// The pointers that exec takes, with nullptr at the end.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// The variables of this process, then `added`. The first of two equal names counts: the user's.
std::vector<std::string> environment_with(const std::vector<std::string>& added) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  variables.insert(variables.end(), added.begin(), added.end());
  return variables;
}

/// A group of its own, and the signal mask: this process itself may block SIGTERM.
void set_signals(posix_spawnattr_t& attributes, bool blocks_stop_signals) {
  sigset_t mask;
  sigemptyset(&mask);
  if (blocks_stop_signals)
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&mask, signal);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const ChildOptions& options) {
  const std::vector<std::string> environment = environment_with(options.environment);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(words[0], errno);
  output_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  set_signals(attributes, options.blocks_stop_signals);
  const int error = posix_spawnp(&id_, words[0].c_str(), &actions, &attributes,
                                 pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (error != 0) cannot_start(words[0], error);
}

ChildProcess::~ChildProcess() {
  close(output_);
}

void ChildProcess::send(int signal) const {
  kill(id_, signal);
}

bool ChildProcess::read_output(std::string& output) const {
  pollfd waiting{output_, POLLIN, 0};
  // Programs that it started may keep its output open after its end, for instance an ssh to a
  // machine whose connection is lost.
  const bool had_ended = has_ended();
  if (poll(&waiting, 1, kPollMilliseconds) <= 0) return !had_ended;
  std::array<char, 4096> buffer{};
  const ssize_t count = read(output_, buffer.data(), buffer.size());
  if (count > 0) output.append(buffer.begin(), buffer.begin() + count);
  return count > 0 || (count < 0 && errno == EINTR);
}

int ChildProcess::wait() const {
  int status = 0;
  while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool ChildProcess::has_ended() const {
  siginfo_t info{};
  const auto id = static_cast<id_t>(id_);
  return waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == id_;
}

}  // namespace tessera
