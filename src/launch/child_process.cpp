#include "launch/child_process.h"

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

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words) {
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
  posix_spawnattr_setsigmask(&attributes, &none);  // this process may block SIGTERM
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error =
      posix_spawnp(&id_, words[0].c_str(), &actions, &attributes, arguments.data(), environ);
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
