#include "tools/cli/internal/print/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(Progress, ALineHasTheKeysThatScriptsLookFor) {
  EXPECT_EQ(step_line({.done = 10,
                       .steps = 100,
                       .loss = 4.12341,
                       .grad_norm = 1.23449,
                       .per_second = 177123.4,
                       .left = Seconds(11.2)}),
            "step: 10  loss: 4.1234  grad_norm: 1.2345  tokens/s: 177,123  time left: 12 s");
}

TEST(Progress, WhatIsNotKnownIsLeftOut) {
  EXPECT_EQ(step_line({.done = 1, .steps = 100, .loss = 4}), "step: 1  loss: 4.0000");
  EXPECT_EQ(step_line({.done = 1, .steps = 100, .loss = std::nan("")}), "step: 1");
}

TEST(Progress, WithinAStepTheLineSaysThePartOfItAndTheTimeLeft) {
  EXPECT_EQ(within_line(0.36, 3, Seconds(19.2)), "step: 0.36 of 3  time left: 20 s");
  EXPECT_EQ(within_line(2, 3, Seconds(0)), "step: 2 of 3");
  EXPECT_EQ(within_line(0, 1, Seconds(0)), "step: 0 of 1");
}

TEST(Progress, TheTimeLeftWithinStepsDoesNotCountWhatIsBeforeThem) {
  Progress::Clock::time_point now{std::chrono::hours(1)};
  testing::internal::CaptureStderr();
  Progress progress(2, "token", Progress::Form::kLines, [&] { return now; });
  progress.within(0);
  now += std::chrono::seconds(30);  // the plan is compiled
  progress.within(0.001);
  EXPECT_EQ(progress.left(), Seconds(0));
  now += std::chrono::seconds(4);
  progress.within(0.501);
  EXPECT_DOUBLE_EQ(progress.left().value(), 4 * 1.499 / 0.5);
  testing::internal::GetCapturedStderr();
}

TEST(Progress, TheBarIsAsFullAsTheRun) {
  // 24 columns * 30 / 120 steps = 6 of them.
  EXPECT_EQ(
      bar_line({.done = 30, .steps = 120, .loss = 2, .per_second = 1500, .left = Seconds(65)}),
      "   30/120 [######------------------]  loss 2.0000  1,500 tokens/s  1m05s left");
  EXPECT_EQ(bar_line({.done = 120, .steps = 120, .loss = 2}),
            "  120/120 [########################]  loss 2.0000");
  EXPECT_EQ(bar_line({.done = 0, .steps = 0, .loss = 2}),
            "  0/0 [########################]  loss 2.0000");
}

/// The lines of a run whose step number i ends at `ends[i - 1]` seconds, with 100 tokens a step.
std::string lines_of(int64_t steps, const std::vector<int>& ends) {
  Progress::Clock::time_point now{std::chrono::hours(1)};
  const Progress::Clock::time_point begin = now;
  testing::internal::CaptureStderr();
  {
    Progress progress(steps, "token", Progress::Form::kLines, [&] { return now; });
    for (size_t i = 0; i < ends.size(); ++i) {
      now = begin + std::chrono::seconds(ends[i]);
      progress.step(static_cast<int64_t>(i) + 1, 2, 0, 100);
    }
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, ASlowRunGetsALineEveryTenSecondsWithTheSpeedSinceTheLineBefore) {
  // At 15 s: 2 steps of 100 tokens in 10 s, and 197 steps of 5 s are left. At 25 s: 4 steps in
  // 10 s, and 193 steps of 20 s / 6 are left.
  EXPECT_EQ(lines_of(200, {5, 10, 15, 20, 22, 24, 25, 26}),
            "step: 1  loss: 2.0000\n"
            "step: 3  loss: 2.0000  tokens/s: 20  time left: 16m25s\n"
            "step: 7  loss: 2.0000  tokens/s: 40  time left: 10m44s\n");
}

TEST(Progress, StepsOfMoreThanTenSecondsHaveALineEach) {
  EXPECT_EQ(lines_of(100, {0, 20, 30}),
            "step: 1  loss: 2.0000\n"
            "step: 2  loss: 2.0000  tokens/s: 5  time left: 32m40s\n"
            "step: 3  loss: 2.0000  tokens/s: 10  time left: 24m15s\n");
}

TEST(Progress, ALongEvaluationGetsALineEveryTenSeconds) {
  Progress::Clock::time_point now{std::chrono::hours(1)};
  testing::internal::CaptureStderr();
  EvaluationProgress progress([&] { return now; });
  for (int64_t batch = 1; batch <= 5; ++batch, now += std::chrono::seconds(6))
    progress.batch(batch, 5);
  // Batch 3 ends 12 s after the first one, 6 s a batch; batch 5 is the last one.
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "validation: batch 3 of 5  time left: 12 s\n");
}

TEST(Progress, AFastRunHasNoFurtherLines) {
  EXPECT_EQ(lines_of(100, {0, 1, 2, 3, 4, 5}), "step: 1  loss: 2.0000\n");
}

TEST(Progress, ALongRunGetsTenLinesAndAShortOneALineAStep) {
  const auto lines = [](int64_t steps) {
    int64_t count = 0;
    for (int64_t step = 1; step <= steps; ++step) count += is_worth_a_line(step, steps) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(lines(1), 1);
  EXPECT_EQ(lines(7), 7);
  EXPECT_EQ(lines(1000), 11);  // each hundredth step, and the first
  EXPECT_TRUE(is_worth_a_line(1, 1000));
  EXPECT_TRUE(is_worth_a_line(1000, 1000));
  EXPECT_TRUE(is_worth_a_line(7, 7));
}

}  // namespace
}  // namespace tessera
