#include "launch/stop_signals.h"

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

TEST(StopSignals, ASignalToAProcessWithOtherThreadsWaitsToo) {
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
