#include "ir/models/internal/norms.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "ir/models/testing/bench.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr double kEpsilon = 1e-5;

/// x - mean over the square root of variance + epsilon.
double normal(double x, double mean, double variance) {
  return (x - mean) / std::sqrt(variance + kEpsilon);
}

std::vector<double> next_of(Bench& bench, const std::string& name) {
  return bench.value(bench.graph.variable_of(*bench.graph.find_value(name))->next.value());
}

TEST(BatchNorm, InTrainingUsesTheStatisticsOfTheBatch) {
  Bench bench;
  const ValueId x = bench.input("x", f32({2, 2, 2}), {1, 3, 10, 10, 5, 7, 20, 20});
  const ValueId y = batch_norm(bench.context, x, "norm");
  EXPECT_THAT(variable_lines(bench.graph),
              ElementsAre("norm.weight f32[2] = constant(1.0)", "norm.bias f32[2] = constant(0.0)",
                          "norm.running_mean f32[2] = constant(0.0)",
                          "norm.running_variance f32[2] = constant(1.0)"));
  bench.set("norm.weight", {2, 1});
  bench.set("norm.bias", {0, 100});
  // Channel 0 holds 1 3 5 7: mean 4, variance (9 + 1 + 1 + 9) / 4. Channel 1 holds 10 10 20 20:
  // mean 15, variance 25.
  expect_near(bench.value(y),
              {2 * normal(1, 4, 5), 2 * normal(3, 4, 5), 100 + normal(10, 15, 25),
               100 + normal(10, 15, 25), 2 * normal(5, 4, 5), 2 * normal(7, 4, 5),
               100 + normal(20, 15, 25), 100 + normal(20, 15, 25)},
              1e-12);
}

TEST(BatchNorm, TheRunningStatisticsFollowThoseOfTheBatch) {
  Bench bench;
  batch_norm(bench.context, bench.input("x", f32({2, 1, 2}), {1, 3, 5, 7}), "norm", 0.25);
  bench.set("norm.running_mean", {8});
  bench.set("norm.running_variance", {2});
  // The mean is 4; the variance is 5, unbiased 20 / 3.
  expect_near(next_of(bench, "norm.running_mean"), {0.75 * 8 + 0.25 * 4}, 1e-12);
  // 0.25 * 4 / 3 is not exact in f32.
  expect_near(next_of(bench, "norm.running_variance"), {0.75 * 2 + 0.25 * 20 / 3}, 5 * 0x1p-24);
}

TEST(BatchNorm, InEvaluationUsesTheRunningStatisticsAndKeepsThem) {
  Bench bench;
  bench.context.training = false;
  const ValueId y = batch_norm(bench.context, bench.input("x", f32({1, 1, 2}), {1, 3}), "norm");
  bench.set("norm.running_mean", {2});
  bench.set("norm.running_variance", {4});
  expect_near(bench.value(y), {normal(1, 2, 4), normal(3, 2, 4)}, 1e-12);
  for (const Variable& variable : bench.graph.variables()) EXPECT_FALSE(variable.next.has_value());
}

TEST(BatchNorm, NormalisesABatchOfRowsToo) {
  Bench bench;
  const ValueId y = batch_norm(bench.context, bench.input("x", f32({2, 2}), {1, 5, 3, 5}), "norm");
  expect_near(bench.value(y), {normal(1, 2, 1), 0, normal(3, 2, 1), 0}, 1e-12);
}

TEST(BatchNorm, RefusesWhatHasNoChannels) {
  Bench bench;
  try {
    batch_norm(bench.context, bench.input("x", f32({2}), {1, 5}), "norm");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "batch_norm 'norm': x f32[2] has no channels\n"
                 "  why: it takes [batch, channels] or [batch, channels, space...]\n"
                 "  fix: reshape the operand");
  }
}

TEST(GroupNorm, UsesTheStatisticsOfEachSampleAndGroup) {
  Bench bench;
  const ValueId x = bench.input("x", f32({1, 4, 1}), {1, 3, 10, 30});
  const ValueId y = group_norm(bench.context, x, 2, "norm");
  EXPECT_THAT(variable_lines(bench.graph), ElementsAre("norm.weight f32[4] = constant(1.0)",
                                                       "norm.bias f32[4] = constant(0.0)"));
  bench.set("norm.weight", {1, 2, 1, 1});
  bench.set("norm.bias", {0, 0, 5, 0});
  expect_near(bench.value(y),
              {normal(1, 2, 1), 2 * normal(3, 2, 1), 5 + normal(10, 20, 100), normal(30, 20, 100)},
              1e-12);
}

TEST(InstanceNorm, UsesTheStatisticsOfEachSampleAndChannel) {
  Bench bench;
  const ValueId y =
      instance_norm(bench.context, bench.input("x", f32({1, 2, 2}), {1, 3, 10, 30}), "norm");
  expect_near(bench.value(y),
              {normal(1, 2, 1), normal(3, 2, 1), normal(10, 20, 100), normal(30, 20, 100)}, 1e-12);
}

}  // namespace
}  // namespace tessera
