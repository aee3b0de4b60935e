// The main function of the test programs. It runs the cases in a child process and watches them:
// a case that crashes or hangs is named, and the cases after it still run.
//
//   TESSERA_SUPERVISE=0   runs the cases in this process, as under a debugger or mpirun
//   TESSERA_CASE_SECONDS  the time limit of a case; default 300
//
// All flags of GoogleTest and its sharding variables keep their meaning. With
// --gtest_output=xml:FILE GoogleTest writes FILE. Where a case crashed or hung, the processes after
// the first one write FILE.2, FILE.3, ..., and this program writes what a lost process had run to
// FILE.lost.N.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::test_support {
namespace {

using Clock = std::chrono::steady_clock;

enum class Outcome { kNotRun, kPassed, kFailed, kSkipped, kCrashed, kHung };

struct Case {
  std::string name;
  Outcome outcome = Outcome::kNotRun;
};

/// Writes one line for the supervisor. write() leaves nothing in a buffer that a crash would lose.
void report(int pipe, char kind, const std::string& name) {
  const std::string line = kind + name + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(pipe, line.data() + written, line.size() - written);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) written += static_cast<std::size_t>(count);
  }
}

std::string full_name(const testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

/// In the child: says which cases will run, which one begins, and how it ended.
class Reporter : public testing::EmptyTestEventListener {
 public:
  explicit Reporter(int pipe) : pipe_(pipe) {}

  void OnTestIterationStart(const testing::UnitTest& tests, int iteration) override {
    if (iteration > 0) return;
    for (int s = 0; s < tests.total_test_suite_count(); ++s) {
      const testing::TestSuite& suite = *tests.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t)
        if (suite.GetTestInfo(t)->should_run())
          report(pipe_, 'c', full_name(*suite.GetTestInfo(t)));
    }
  }

  void OnTestStart(const testing::TestInfo& test) override { report(pipe_, 'b', full_name(test)); }

  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    report(pipe_, result.Failed() ? 'f' : result.Skipped() ? 's' : 'p', full_name(test));
  }

 private:
  int pipe_;
};

[[noreturn]] void run_as_child(int pipe) {
  testing::UnitTest::GetInstance()->listeners().Append(new Reporter(pipe));
  const int status = RUN_ALL_TESTS();
  std::fflush(nullptr);
  // What is destroyed at the end of a program is tested, too: std::exit, not _exit.
  std::exit(status);
}

class Supervisor {
 public:
  explicit Supervisor(std::chrono::seconds limit)
      : limit_(limit), output_(testing::GTEST_FLAG(output)) {}

  int run() {
    for (int attempt = 1;; ++attempt) {
      if (attempt > 1) begin_again(attempt);
      if (run_child(attempt)) break;
      write_lost(attempt);
      if (!has_open_cases()) break;
    }
    for (const Case& one : cases_) {
      if (one.outcome == Outcome::kCrashed) std::printf("[ CRASHED ] %s\n", one.name.c_str());
      if (one.outcome == Outcome::kHung) std::printf("[  HUNG   ] %s\n", one.name.c_str());
    }
    return is_failed_ ? 1 : 0;
  }

 private:
  /// The cases that have not run yet, named one by one: GoogleTest's sharding has already chosen.
  void begin_again(int attempt) {
    std::string filter;
    for (const Case& one : cases_)
      if (one.outcome == Outcome::kNotRun) filter += (filter.empty() ? "" : ":") + one.name;
    testing::GTEST_FLAG(filter) = filter;
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
    if (!output_.empty()) testing::GTEST_FLAG(output) = output_ + "." + std::to_string(attempt);
  }

  bool has_open_cases() const {
    return std::any_of(cases_.begin(), cases_.end(),
                       [](const Case& one) { return one.outcome == Outcome::kNotRun; });
  }

  /// Returns whether the child ran all its cases; false after a crash or a hang.
  bool run_child(int attempt) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      std::perror("pipe");
      std::abort();
    }
    std::fflush(nullptr);
    child_ = fork();
    if (child_ < 0) {
      std::perror("fork");
      std::abort();
    }
    if (child_ == 0) {
      close(ends[0]);
      run_as_child(ends[1]);
    }
    close(ends[1]);
    running_ = -1;
    is_hung_ = false;
    read_lines(ends[0], attempt == 1);
    close(ends[0]);
    return end_child();
  }

  void read_lines(int pipe, bool is_first) {
    std::string text;
    auto begin = Clock::now();
    for (;;) {
      // A process that a case started may hold the pipe open after the child ended.
      const bool has_ended = child_has_ended();
      pollfd wait{pipe, POLLIN, 0};
      const int ready = poll(&wait, 1, has_ended ? 0 : 500);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0 && has_ended) return;
      if (ready == 0 && Clock::now() < begin + limit_) continue;
      if (ready == 0) {
        is_hung_ = true;
        std::printf("no end after %ld s: %s\n", static_cast<long>(limit_.count()),
                    running_ < 0 ? "between two cases" : name_of_running().c_str());
        std::fflush(stdout);
        kill(child_, SIGKILL);
        return;
      }
      char buffer[4096];
      const ssize_t count = read(pipe, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      text.append(buffer, static_cast<std::size_t>(count));
      for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
        if (take(text[0], text.substr(1, end - 1), is_first)) begin = Clock::now();
    }
  }

  /// Returns whether a case began or ended, which starts its time limit anew.
  bool take(char kind, const std::string& name, bool is_first) {
    if (kind == 'c') {
      if (is_first) cases_.push_back({name});
      return false;
    }
    const auto found = std::find_if(cases_.begin(), cases_.end(),
                                    [&](const Case& one) { return one.name == name; });
    if (found == cases_.end()) return true;
    if (kind == 'b') {
      running_ = found - cases_.begin();
      return true;
    }
    running_ = -1;
    found->outcome = kind == 'f'   ? Outcome::kFailed
                     : kind == 's' ? Outcome::kSkipped
                                   : Outcome::kPassed;
    return true;
  }

  bool end_child() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && running_ < 0 && !has_open_cases())
      return true;
    is_failed_ = true;
    if (WIFEXITED(status) && !has_open_cases() && running_ < 0) return true;
    if (running_ < 0 && !is_hung_ && !has_open_cases()) {
      std::printf("the program crashed after its last case: signal %d\n", WTERMSIG(status));
      return true;
    }
    if (running_ >= 0) {
      Case& one = cases_[static_cast<std::size_t>(running_)];
      one.outcome = is_hung_ ? Outcome::kHung : Outcome::kCrashed;
      if (WIFSIGNALED(status) && !is_hung_)
        std::printf("[ CRASHED ] %s: signal %d (%s)\n", one.name.c_str(), WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
      if (WIFEXITED(status))
        std::printf("[ CRASHED ] %s: it ended the program with exit code %d\n", one.name.c_str(),
                    WEXITSTATUS(status));
    } else {
      // Nothing tells which case is at fault, so nothing may be run again.
      std::printf("the program ended between two cases; the others do not run\n");
      for (Case& one : cases_)
        if (one.outcome == Outcome::kNotRun) one.outcome = Outcome::kCrashed;
    }
    std::fflush(stdout);
    return false;
  }

  bool child_has_ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  const std::string& name_of_running() const {
    return cases_[static_cast<std::size_t>(running_)].name;
  }

  /// The lost process wrote no report, so the results of its cases are written here, in the form of
  /// GoogleTest.
  void write_lost(int attempt) const {
    if (output_.rfind("xml:", 0) != 0) return;
    std::ofstream file(output_.substr(4) + ".lost." + std::to_string(attempt));
    file << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"lost\">\n";
    for (const Case& one : cases_) {
      if (one.outcome == Outcome::kNotRun) continue;
      const std::size_t dot = one.name.find('.');
      file << "<testcase classname=\"" << one.name.substr(0, dot) << "\" name=\""
           << one.name.substr(dot + 1) << "\">";
      if (one.outcome == Outcome::kSkipped) file << "<skipped/>";
      if (one.outcome == Outcome::kFailed) file << "<failure message=\"failed\"/>";
      if (one.outcome == Outcome::kCrashed) file << "<failure message=\"crashed\"/>";
      if (one.outcome == Outcome::kHung) file << "<failure message=\"hung\"/>";
      file << "</testcase>\n";
    }
    file << "</testsuite></testsuites>\n";
  }

  std::chrono::seconds limit_;
  std::string output_;
  std::vector<Case> cases_;
  pid_t child_ = 0;
  std::ptrdiff_t running_ = -1;
  bool is_hung_ = false;
  bool is_failed_ = false;
};

std::chrono::seconds case_limit() {
  const char* text = std::getenv("TESSERA_CASE_SECONDS");
  return std::chrono::seconds(text ? std::max(1, std::atoi(text)) : 300);
}

/// A death test runs the program again, with a flag of GoogleTest's own.
bool is_death_test(std::span<char* const> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const char* argument) {
    return std::string_view(argument).starts_with("--gtest_internal_run_death_test");
  });
}

bool is_supervised() {
  const char* text = std::getenv("TESSERA_SUPERVISE");
  return !testing::GTEST_FLAG(list_tests) && !(text && std::string_view(text) == "0");
}

}  // namespace
}  // namespace tessera::test_support

int main(int argc, char** argv) {
  using namespace tessera::test_support;
  const bool is_alone = is_death_test(std::span(argv, static_cast<std::size_t>(argc)));
  testing::InitGoogleMock(&argc, argv);
  if (is_alone || !is_supervised()) return RUN_ALL_TESTS();
  return Supervisor(case_limit()).run();
}
