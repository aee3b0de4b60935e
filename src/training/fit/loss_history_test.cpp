#include "training/fit/loss_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tessera {
namespace {

/// Losses of a run: they fall from 5 to 2, with noise of `noise` times themselves.
std::vector<double> falling(int64_t steps, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step)
    losses.push_back((2 + 3 * std::exp(-step / 50.0)) * (1 + noise * normal(random)));
  return losses;
}

TEST(LossHistory, AFallingLossWithNoiseIsNeverFarOutside) {
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const double noise : {0.0, 0.02, 0.2}) {
      LossHistory history;
      for (const double loss : falling(500, noise, seed)) EXPECT_TRUE(history.add(loss)) << seed;
    }
}

TEST(LossHistory, ALossThatMoreThanDoublesIsFarOutsideOfQuietOnes) {
  LossHistory history;
  for (const double loss : falling(300, 0.02, 1)) history.add(loss);
  EXPECT_TRUE(history.add(3.0));
  EXPECT_FALSE(history.add(5.0));
  EXPECT_FALSE(history.add(1e26));
}

TEST(LossHistory, TheFirstLossesAreEnough) {
  LossHistory history;
  EXPECT_TRUE(history.add(4.8));
  EXPECT_TRUE(history.add(5.5));
  EXPECT_FALSE(history.add(100));
}

TEST(LossHistory, ALossThatStaysFarOutsideIsNotTakenForNormal) {
  LossHistory history;
  for (const double loss : falling(300, 0.02, 1)) history.add(loss);
  for (int i = 0; i < 300; ++i) EXPECT_FALSE(history.add(1e6));
  EXPECT_TRUE(history.add(2.0)) << "it has recovered";
}

TEST(LossHistory, TheLastHundredCount) {
  LossHistory history;
  for (int i = 0; i < 100; ++i) history.add(100);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(history.add(1));
  EXPECT_EQ(history.median(), 1);
  EXPECT_EQ(history.spread(), 0);
  EXPECT_FALSE(history.add(90));
}

TEST(LossHistory, ZeroAndNegativeLossesHaveAScaleToo) {
  LossHistory history;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(history.add(-3 + 0.1 * (i % 7)));
  EXPECT_TRUE(history.add(-1));
  EXPECT_FALSE(history.add(1));
}

TEST(LossHistory, WhatIsNoNumberIsFarOutside) {
  LossHistory history;
  history.add(1);
  EXPECT_FALSE(history.add(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(history.add(std::numeric_limits<double>::infinity()));
}

}  // namespace
}  // namespace tessera
