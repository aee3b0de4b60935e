#include "tools/launch/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace tessera {
namespace {

TEST(StopSignals, ASignalWaitsUntilItIsAskedFor) {
  StopSignals signals;
  EXPECT_EQ(signals.received(), std::nullopt);
  raise(SIGTERM);
  EXPECT_EQ(signals.received(), "SIGTERM");
}

// The process must have no thread that was made before: the signal would go to it and end all.
TEST(StopSignalsAlone, ASignalToAProcessWithOtherThreadsWaitsToo) {
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

TEST(StopSignals, ASignalThatCameTooLateIsDropped) {
  {
    StopSignals signals;
    raise(SIGTERM);
  }
  StopSignals next;
  EXPECT_EQ(next.received(), std::nullopt);
}

TEST(StopSignals, AHangUpAndAUserSignalAskForTheSame) {
  StopSignals hang_up;
  raise(SIGHUP);
  EXPECT_EQ(hang_up.received(), "SIGHUP");
  StopSignals user;
  raise(SIGUSR1);
  EXPECT_EQ(user.received(), "SIGUSR1");
}

TEST(StopSignals, UnderNohupAHangUpStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    StopSignals signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), std::nullopt);
  }
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignals, SignalsThatAreOnlyTakenStayBlocked) {
  StopSignals signals;
  for (const int signal : {SIGTERM, SIGINT, SIGTERM}) {
    raise(signal);
    EXPECT_EQ(signals.take(), signal);
  }
  EXPECT_EQ(signals.take(), std::nullopt);
}

TEST(StopSignals, TheSecondSignalEndsTheProgram) {
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
