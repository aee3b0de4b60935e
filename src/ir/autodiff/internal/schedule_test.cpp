#include <gtest/gtest.h>

#include <cmath>

#include "ir/autodiff/optimizer.h"

namespace tessera {
namespace {

/// A few operations on numbers below 1.
constexpr double kRateRounding = 8 * 0x1p-53;

TEST(Schedule, ConstantStaysAtThePeakAfterTheWarmUp) {
  const Schedule schedule{
      .kind = ScheduleKind::kConstant, .peak = 0.5, .warmup = 4, .steps = 10, .final = 0};
  EXPECT_EQ(learning_rate(schedule, 0), 0.125);  // 0.5 * 1/4
  EXPECT_EQ(learning_rate(schedule, 1), 0.25);
  EXPECT_EQ(learning_rate(schedule, 2), 0.375);
  EXPECT_EQ(learning_rate(schedule, 3), 0.5);
  EXPECT_EQ(learning_rate(schedule, 4), 0.5);
  EXPECT_EQ(learning_rate(schedule, 1000), 0.5);
}

TEST(Schedule, TheWarmUpMayRiseFromAFractionOfThePeak) {
  const Schedule schedule{
      .kind = ScheduleKind::kConstant, .peak = 2, .warmup = 3, .warmup_start = 0.25};
  // The rate rises from 0.5 to 2 in three equal steps of 0.5.
  EXPECT_EQ(learning_rate(schedule, 0), 1.0);
  EXPECT_EQ(learning_rate(schedule, 1), 1.5);
  EXPECT_EQ(learning_rate(schedule, 2), 2.0);
  EXPECT_EQ(learning_rate(schedule, 3), 2.0);
}

TEST(Schedule, WithoutWarmUpStartsAtThePeak) {
  EXPECT_EQ(learning_rate({.kind = ScheduleKind::kConstant, .peak = 0.5}, 0), 0.5);
  EXPECT_EQ(learning_rate({.kind = ScheduleKind::kCosine, .peak = 0.5, .steps = 10}, 0), 0.5);
}

TEST(Schedule, LinearFallsEvenlyToTheLastStep) {
  const Schedule schedule{
      .kind = ScheduleKind::kLinear, .peak = 1, .warmup = 2, .steps = 7, .final = 0.2};
  EXPECT_EQ(learning_rate(schedule, 0), 0.5);
  EXPECT_EQ(learning_rate(schedule, 1), 1);
  // At steps 2 to 6 the rate has covered 0, 1/4, 1/2, 3/4, 1 of the distance from 1 to 0.2.
  EXPECT_NEAR(learning_rate(schedule, 2), 1.0, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 3), 0.8, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 4), 0.6, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 5), 0.4, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 6), 0.2, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 7), 0.2, kRateRounding);  // a longer run stays there
}

TEST(Schedule, CosineFallsAsHalfAWave) {
  const Schedule schedule{
      .kind = ScheduleKind::kCosine, .peak = 2, .warmup = 0, .steps = 5, .final = 0.1};
  // 2 (0.1 + 0.9 (1 + cos(pi s / 4)) / 2): cos = 1, 1/sqrt 2, 0, -1/sqrt 2, -1
  EXPECT_NEAR(learning_rate(schedule, 0), 2.0, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 1), 0.2 + 0.9 * (1 + 1 / std::sqrt(2.0)), kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 2), 1.1, kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 3), 0.2 + 0.9 * (1 - 1 / std::sqrt(2.0)), kRateRounding);
  EXPECT_NEAR(learning_rate(schedule, 4), 0.2, kRateRounding);
}

TEST(Schedule, OneStepAfterTheWarmUpIsTheLast) {
  const Schedule schedule{
      .kind = ScheduleKind::kLinear, .peak = 1, .warmup = 2, .steps = 3, .final = 0.5};
  EXPECT_EQ(learning_rate(schedule, 1), 1);
  EXPECT_EQ(learning_rate(schedule, 2), 0.5);
}

TEST(Schedule, KindsAndOptimizersHaveNames) {
  EXPECT_EQ(to_text(ScheduleKind::kConstant), "constant");
  EXPECT_EQ(to_text(ScheduleKind::kCosine), "cosine");
  EXPECT_EQ(to_text(ScheduleKind::kLinear), "linear");
  EXPECT_EQ(to_text(OptimizerKind::kSgd), "sgd");
  EXPECT_EQ(to_text(OptimizerKind::kMomentum), "momentum");
  EXPECT_EQ(to_text(OptimizerKind::kAdam), "adam");
  EXPECT_EQ(to_text(OptimizerKind::kAdamW), "adamw");
}

}  // namespace
}  // namespace tessera
