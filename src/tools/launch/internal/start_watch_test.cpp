#include "tools/launch/internal/start_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <string>

#include "base/testing/waits.h"

namespace tessera {
namespace {

/// A process that does nothing, started in the way of MPICH's launcher.
class Sleeper {
 public:
  explicit Sleeper(int rank) {
    std::string name = "sleep", seconds = "3600", number = "PMI_RANK=" + std::to_string(rank);
    char* words[] = {name.data(), seconds.data(), nullptr};
    char* variables[] = {number.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&process_, "sleep", nullptr, nullptr, words, variables), 0);
    // posix_spawn may return before the system shows the variables of the new program.
    EXPECT_TRUE(comes_true([&] {
      std::ifstream environment("/proc/" + std::to_string(process_) + "/environ");
      std::string shown;
      return std::getline(environment, shown, '\0') && shown == number;
    }));
  }
  ~Sleeper() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  pid_t process() const { return process_; }
  /// Returns when the signal has stopped, continued or killed the process.
  void send(int signal) const {
    kill(process_, signal);
    const int event = signal == SIGSTOP ? WSTOPPED : signal == SIGCONT ? WCONTINUED : WEXITED;
    siginfo_t info{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process_), &info, WNOWAIT | event), 0);
  }

 private:
  pid_t process_ = 0;
};

/// A time of the simulated clock of a test.
RankWatch::Clock::time_point at_second(int seconds) {
  return RankWatch::Clock::time_point(std::chrono::seconds(seconds));
}

class StartLossesOf : public testing::TestWithParam<int> {};

TEST_P(StartLossesOf, NameTheRankThatIsStoppedOrKilledWhileTheOthersLive) {
  const Sleeper first(0), second(1), third(2);
  StartLosses losses(getpid(), Seconds(30));
  EXPECT_FALSE(losses.check(at_second(0)));
  second.send(GetParam());
  EXPECT_FALSE(losses.check(at_second(100))) << "it was not lost before";
  EXPECT_FALSE(losses.check(at_second(130))) << "not longer than the deadline";
  const auto found = losses.check(at_second(131));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, 1);
  EXPECT_EQ(found->pid, second.process());
  EXPECT_EQ(found->has_ended, GetParam() == SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Signals, StartLossesOf, testing::Values(SIGSTOP, SIGKILL));

TEST(StartLosses, AreNoProcessesThatLiveNorOneThatGoesOnInTime) {
  const Sleeper first(0), second(1);
  StartLosses losses(getpid(), Seconds(30));
  EXPECT_FALSE(losses.check(at_second(0)));
  EXPECT_FALSE(losses.check(at_second(1000)));
  for (int time = 1000; time < 1100; time += 20) {
    second.send(SIGSTOP);
    EXPECT_FALSE(losses.check(at_second(time)));
    second.send(SIGCONT);
    EXPECT_FALSE(losses.check(at_second(time + 10)));
  }
}

TEST(StartWatch, CallsFromItsThreadWithTheFirstLoss) {
  const Sleeper first(0), second(1);
  second.send(SIGSTOP);
  std::promise<LostProcess> lost;
  const StartWatch watch(getpid(), Seconds(0),
                         [&](const LostProcess& found) { lost.set_value(found); });
  std::future<LostProcess> told = lost.get_future();
  ASSERT_EQ(told.wait_for(std::chrono::minutes(3)), std::future_status::ready);
  EXPECT_EQ(told.get().pid, second.process());
}

}  // namespace
}  // namespace tessera
