#include "runtime/executor/internal/record/step_stopwatch.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tessera {
namespace {

using Time = StepStopwatch::Time;

/// The time of the simulated clock, in seconds.
int simulated_seconds = 0;

Time simulated_time() {
  return Time(std::chrono::seconds(simulated_seconds));
}

StepStopwatch begun_at_zero() {
  simulated_seconds = 0;
  StepStopwatch stopwatch(&simulated_time);
  stopwatch.begin_step();
  return stopwatch;
}

TEST(StepStopwatch, KernelsAndExchangesCountAndWaitsDoNot) {
  StepStopwatch stopwatch = begun_at_zero();
  simulated_seconds = 5;  // the rank waits for its first input
  stopwatch.begin_act(Task::Kind::kCompute);
  simulated_seconds = 8;
  stopwatch.begin_act(Task::Kind::kCompute);  // what is between two kernels counts as theirs
  simulated_seconds = 10;
  stopwatch.begin_act(Task::Kind::kExchange);
  simulated_seconds = 17;
  stopwatch.pause();
  simulated_seconds = 100;  // it waits for others
  stopwatch.begin_act(Task::Kind::kCompute);
  simulated_seconds = 101;
  stopwatch.pause();
  EXPECT_EQ(stopwatch.time().kernels, Seconds(6));
  EXPECT_EQ(stopwatch.time().exposed, Seconds(7));
}

TEST(StepStopwatch, OtherActsCountAsNeither) {
  StepStopwatch stopwatch = begun_at_zero();
  stopwatch.begin_act(Task::Kind::kFeed);
  simulated_seconds = 3;
  stopwatch.begin_act(Task::Kind::kCompute);
  simulated_seconds = 4;
  stopwatch.begin_act(Task::Kind::kFetch);
  simulated_seconds = 9;
  stopwatch.pause();
  EXPECT_EQ(stopwatch.time().kernels, Seconds(1));
  EXPECT_EQ(stopwatch.time().exposed, Seconds(0));
}

TEST(StepStopwatch, OfAPrefetchTheTimeFromItsDataToItsEndIsExposed) {
  StepStopwatch stopwatch = begun_at_zero();
  stopwatch.add_due(false, false, simulated_time());  // its senders have not filled the data
  simulated_seconds = 20;
  stopwatch.add_due(true, false, simulated_time());
  simulated_seconds = 22;
  const Time begin = simulated_time();
  simulated_seconds = 23;
  stopwatch.add_due(true, true, begin);
  EXPECT_EQ(stopwatch.time().exposed, Seconds(3));
  EXPECT_EQ(stopwatch.time().kernels, Seconds(0));
}

TEST(StepStopwatch, EachStepBeginsWithNothing) {
  StepStopwatch stopwatch = begun_at_zero();
  stopwatch.begin_act(Task::Kind::kCompute);
  simulated_seconds = 3;
  stopwatch.pause();
  stopwatch.begin_step();
  EXPECT_EQ(stopwatch.time().kernels, Seconds(0));
  stopwatch.begin_act(Task::Kind::kCompute);
  simulated_seconds = 5;
  stopwatch.pause();
  EXPECT_EQ(stopwatch.time().kernels, Seconds(2));
}

}  // namespace
}  // namespace tessera
