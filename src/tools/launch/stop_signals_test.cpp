#include "tools/launch/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <thread>

namespace tessera {
namespace {

/// Begins like a program: no signal is blocked or waits, whatever the test before left.
class StopSignalsTest : public testing::Test {
 protected:
  StopSignalsTest() {
    sigset_t all;
    sigfillset(&all);
    const timespec at_once{};
    while (sigtimedwait(&all, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  }
};
using StopSignalsAlone = StopSignalsTest;

TEST_F(StopSignalsTest, ASignalWaitsUntilItIsAskedFor) {
  StopSignals signals;
  EXPECT_EQ(signals.received(), std::nullopt);
  raise(SIGTERM);
  EXPECT_EQ(signals.received(), "SIGTERM");
}

// The process must have no thread that was made before: the signal would go to it and end all.
TEST_F(StopSignalsAlone, ASignalToAProcessWithOtherThreadsWaitsToo) {
  StopSignals signals;
  bool asked = false;
  std::thread other([&] {
    kill(getpid(), SIGINT);
    asked = true;
  });
  other.join();
  EXPECT_TRUE(asked);
  EXPECT_EQ(signals.received(), "SIGINT");
}

TEST_F(StopSignalsTest, ASignalThatCameTooLateIsDropped) {
  {
    StopSignals signals;
    raise(SIGTERM);
  }
  StopSignals next;
  EXPECT_EQ(next.received(), std::nullopt);
}

TEST_F(StopSignalsTest, ASignalAfterItsEndDoesNotEndTheProgram) {
  EXPECT_EXIT(
      {
        {
          const StopSignals signals;
        }
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) raise(signal);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StopSignalsTest, AHangUpAndAUserSignalAskForTheSame) {
  StopSignals hang_up;
  raise(SIGHUP);
  EXPECT_EQ(hang_up.received(), "SIGHUP");
  StopSignals user;
  raise(SIGUSR1);
  EXPECT_EQ(user.received(), "SIGUSR1");
}

TEST_F(StopSignalsTest, UnderNohupAHangUpStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    StopSignals signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), std::nullopt);
  }
  std::signal(SIGHUP, SIG_DFL);
}

TEST_F(StopSignalsTest, SignalsThatAreOnlyTakenStayBlocked) {
  StopSignals signals;
  for (const int signal : {SIGTERM, SIGINT, SIGTERM}) {
    raise(signal);
    EXPECT_EQ(signals.take(), signal);
  }
  EXPECT_EQ(signals.take(), std::nullopt);
}

TEST_F(StopSignalsTest, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        raise(SIGTERM);
        if (signals.received()) raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace tessera
