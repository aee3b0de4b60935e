// Fits the numbers of a runtime profile to measured steps. This module knows profiles and times; it
// knows no plans: what a profile predicts is a function.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/runtime_profile.h"

namespace tessera {

/// A number of a profile that runs can tell.
struct ProfileParameter {
  std::string_view name;  // as in the file of a profile: "reach.inside.bandwidth"
  std::string_view unit;  // "us", "ms", "part"; "" for a count
  double per_unit = 1;    // the number in `unit` is the value times this
  double smallest = 0, largest = 0;
  double deviation = 0;  // of its logarithm, before anything is measured
  double (*get)(const RuntimeProfile&) = nullptr;
  void (*set)(RuntimeProfile&, double) = nullptr;
};

/// All of them. None belongs to a model, a size or a publication.
std::span<const ProfileParameter> profile_parameters();

/// The predicted steps of all runs with the software of a profile, in seconds.
using PredictSteps = std::function<std::vector<double>(const RuntimeProfile&)>;

struct FittedParameter {
  const ProfileParameter* parameter = nullptr;
  double before = 0, after = 0;
  /// The greatest relative change of a prediction when the number is a tenth larger.
  double influence = 0;
  bool is_fitted = false;  // false: no run tells it, or there are too few runs
};

struct ProfileFit {
  RuntimeProfile profile;
  std::vector<FittedParameter> parameters;  // in the order of profile_parameters()
};

struct ProfileFitOptions {
  /// The standard deviation of the logarithm of a measurement beside the best prediction.
  double measurement = 0.06;
  /// Runs for each number that is fitted, at least: those with the most influence are.
  double runs_per_parameter = 3;
  /// The profile around which the deviations are; `profile` of fit_profile begins the fit.
  RuntimeProfile prior = {};
};

/// The numbers that minimize the squared relative errors of the predictions and, each in its
/// deviation, what they differ from those of the prior; outliers count less (fit_factors).
///   requires  predict gives a number above 0 for each of `measured`
ProfileFit fit_profile(const RuntimeProfile& profile, const PredictSteps& predict,
                       std::span<const double> measured, const ProfileFitOptions& options);

}  // namespace tessera
