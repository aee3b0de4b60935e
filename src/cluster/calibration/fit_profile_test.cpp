#include "cluster/calibration/fit_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

/// Steps of runs with so much arithmetic, kernels and bytes over the network.
struct RunOfStep {
  double tflop = 0, kernels = 0, gigabytes = 0;

  double step(const RuntimeProfile& profile) const {
    const double device = tflop / (250 * profile.reach.products);
    return std::max(device, kernels * profile.host.value()) +
           gigabytes / (25 * profile.reach.network.bandwidth) + profile.constant.value();
  }
};

std::vector<RunOfStep> runs() {
  std::vector<RunOfStep> list;
  for (const double size : {0.2, 1.0, 5.0, 20.0, 80.0})
    for (const double bytes : {0.0, 0.5, 4.0}) list.push_back({size, 1500, bytes});
  return list;
}

PredictSteps predict_all(const std::vector<RunOfStep>& list) {
  return [list](const RuntimeProfile& profile) {
    std::vector<double> steps;
    for (const RunOfStep& run : list) steps.push_back(run.step(profile));
    return steps;
  };
}

RuntimeProfile start() {
  RuntimeProfile profile = *find_runtime_profile("megatron");
  profile.host = Seconds(20e-6);
  profile.constant = Seconds(5e-3);
  profile.reach.products = 1;
  profile.reach.network.bandwidth = 0.6;
  return profile;
}

const FittedParameter& parameter(const ProfileFit& fit, std::string_view name) {
  return *std::ranges::find_if(
      fit.parameters, [&](const FittedParameter& each) { return each.parameter->name == name; });
}

TEST(FitProfile, FindsPlantedNumbersAgain) {
  RuntimeProfile planted = start();
  planted.host = Seconds(45e-6);
  planted.constant = Seconds(9e-3);
  planted.reach.products = 0.8;
  planted.reach.network.bandwidth = 0.4;
  const PredictSteps predict = predict_all(runs());
  const ProfileFit fit =
      fit_profile(start(), predict, predict(planted), {.measurement = 0.01, .prior = start()});
  EXPECT_NEAR(fit.profile.host.value() / planted.host.value(), 1, 0.05);
  EXPECT_NEAR(fit.profile.constant.value() / planted.constant.value(), 1, 0.05);
  EXPECT_NEAR(fit.profile.reach.products / planted.reach.products, 1, 0.05);
  EXPECT_NEAR(fit.profile.reach.network.bandwidth / planted.reach.network.bandwidth, 1, 0.05);
}

TEST(FitProfile, WhatNoRunTellsIsLeftAndNamed) {
  const PredictSteps predict = predict_all(runs());
  RuntimeProfile planted = start();
  planted.reach.products = 0.7;
  const ProfileFit fit = fit_profile(start(), predict, predict(planted), {.prior = start()});
  const FittedParameter& attention = parameter(fit, "reach.attention");
  EXPECT_FALSE(attention.is_fitted);
  EXPECT_EQ(attention.influence, 0);
  EXPECT_EQ(fit.profile.reach.attention, start().reach.attention);
  EXPECT_TRUE(parameter(fit, "reach.products").is_fitted);
}

TEST(FitProfile, OfThreeRunsOneNumberIsFitted) {
  const std::vector<RunOfStep> few{{80, 1500, 0}, {20, 1500, 0.5}, {5, 1500, 4}};
  const PredictSteps predict = predict_all(few);
  const ProfileFit fit = fit_profile(start(), predict, predict(start()), {.prior = start()});
  EXPECT_EQ(std::ranges::count_if(fit.parameters, &FittedParameter::is_fitted), 1);
}

TEST(FitProfile, OneWrongMeasurementChangesLittle) {
  const PredictSteps predict = predict_all(runs());
  RuntimeProfile planted = start();
  planted.reach.products = 0.8;
  std::vector<double> measured = predict(planted);
  measured.back() *= 3;
  const ProfileFit fit = fit_profile(start(), predict, measured, {.prior = start()});
  // Beyond two deviations an error counts in proportion: one of 15 runs moves a number by less than
  // the deviation of a measurement, 6%.
  EXPECT_NEAR(fit.profile.reach.products / 0.8, 1, 0.06);
}

TEST(ProfileParameters, HaveBoundsAroundTheBuiltInProfiles) {
  for (const ProfileParameter& each : profile_parameters())
    for (const RuntimeProfile& profile : runtime_profiles()) {
      if (profile.fusion == Fusion::kNone) continue;
      EXPECT_GE(each.get(profile), each.smallest) << each.name << " of " << profile.name;
      EXPECT_LE(each.get(profile), each.largest) << each.name << " of " << profile.name;
      RuntimeProfile other = profile;
      each.set(other, each.largest);
      EXPECT_EQ(each.get(other), each.largest) << each.name;
    }
}

}  // namespace
}  // namespace tessera
