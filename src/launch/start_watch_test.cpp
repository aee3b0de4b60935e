#include "launch/start_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

namespace tessera {
namespace {

/// A process that does nothing, started in the way of MPICH's launcher.
class Sleeper {
 public:
  explicit Sleeper(int rank) {
    std::string name = "sleep", seconds = "60", number = "PMI_RANK=" + std::to_string(rank);
    char* words[] = {name.data(), seconds.data(), nullptr};
    char* variables[] = {number.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&process_, "sleep", nullptr, nullptr, words, variables), 0);
  }
  ~Sleeper() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  pid_t process() const { return process_; }
  void send(int signal) const { kill(process_, signal); }

 private:
  pid_t process_ = 0;
};

class StartWatchOf : public testing::TestWithParam<int> {};

TEST_P(StartWatchOf, NamesTheRankThatIsStoppedOrKilledWhileTheOthersLive) {
  const Sleeper first(0), second(1), third(2);
  std::promise<LostProcess> lost;
  std::future<LostProcess> told = lost.get_future();
  const StartWatch watch(getpid(), Seconds(0.3),
                         [&](const LostProcess& found) { lost.set_value(found); });
  // after this time the watch has found them
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  second.send(GetParam());
  ASSERT_EQ(told.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const LostProcess found = told.get();
  EXPECT_EQ(found.process, 1);
  EXPECT_EQ(found.pid, second.process());
  EXPECT_EQ(found.has_ended, GetParam() == SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Signals, StartWatchOf, testing::Values(SIGSTOP, SIGKILL));

TEST(StartWatch, SaysNothingOfProcessesThatLiveNorOfOneThatGoesOnInTime) {
  const Sleeper first(0), second(1);
  std::atomic<int> calls{0};
  {
    const StartWatch watch(getpid(), Seconds(30), [&](const LostProcess&) { ++calls; });
    second.send(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    second.send(SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace tessera
