#include "cluster/calibration/fit_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "cluster/calibration/internal/least_squares.h"

namespace tessera {
namespace {

constexpr double kMicro = 1e6, kMilli = 1e3;

// clang-format off
constexpr std::array kParameters = std::to_array<ProfileParameter>({
    {"reach.products", "part", 1, 0.2, 1.25, 0.2,
     [](const RuntimeProfile& p) { return p.reach.products; },
     [](RuntimeProfile& p, double x) { p.reach.products = x; }},
    {"reach.half_extent", "", 1, 1, 2000, 1,
     [](const RuntimeProfile& p) { return p.reach.half_extent; },
     [](RuntimeProfile& p, double x) { p.reach.half_extent = x; }},
    {"reach.attention", "part", 1, 0.03, 1.2, 0.7,
     [](const RuntimeProfile& p) { return p.reach.attention; },
     [](RuntimeProfile& p, double x) { p.reach.attention = x; }},
    {"reach.memory", "part", 1, 0.3, 1.15, 0.25,
     [](const RuntimeProfile& p) { return p.reach.memory; },
     [](RuntimeProfile& p, double x) { p.reach.memory = x; }},
    {"score_passes", "", 1, 2, 40, 0.5,
     [](const RuntimeProfile& p) { return p.score_passes; },
     [](RuntimeProfile& p, double x) { p.score_passes = x; }},
    {"host", "us", kMicro, 1e-6, 500e-6, 1,
     [](const RuntimeProfile& p) { return p.host.value(); },
     [](RuntimeProfile& p, double x) { p.host = Seconds(x); }},
    {"gap", "us", kMicro, 2e-7, 8e-6, 0.5,
     [](const RuntimeProfile& p) { return p.gap.value(); },
     [](RuntimeProfile& p, double x) { p.gap = Seconds(x); }},
    {"constant", "ms", kMilli, 1e-4, 0.2, 1.5,
     [](const RuntimeProfile& p) { return p.constant.value(); },
     [](RuntimeProfile& p, double x) { p.constant = Seconds(x); }},
    {"reach.inside.bandwidth", "part", 1, 0.1, 1.2, 0.3,
     [](const RuntimeProfile& p) { return p.reach.inside.bandwidth; },
     [](RuntimeProfile& p, double x) { p.reach.inside.bandwidth = x; }},
    {"reach.inside.start", "us", kMicro, 1e-6, 1e-3, 0.7,
     [](const RuntimeProfile& p) { return p.reach.inside.start.value(); },
     [](RuntimeProfile& p, double x) { p.reach.inside.start = Seconds(x); }},
    {"reach.inside.hop", "us", kMicro, 1e-7, 1e-4, 0.7,
     [](const RuntimeProfile& p) { return p.reach.inside.hop.value(); },
     [](RuntimeProfile& p, double x) { p.reach.inside.hop = Seconds(x); }},
    {"reach.network.bandwidth", "part", 1, 0.1, 1.2, 0.3,
     [](const RuntimeProfile& p) { return p.reach.network.bandwidth; },
     [](RuntimeProfile& p, double x) { p.reach.network.bandwidth = x; }},
    {"reach.network.start", "us", kMicro, 1e-6, 1e-3, 0.7,
     [](const RuntimeProfile& p) { return p.reach.network.start.value(); },
     [](RuntimeProfile& p, double x) { p.reach.network.start = Seconds(x); }},
    {"reach.network.hop", "us", kMicro, 1e-7, 1e-4, 0.7,
     [](const RuntimeProfile& p) { return p.reach.network.hop.value(); },
     [](RuntimeProfile& p, double x) { p.reach.network.hop = Seconds(x); }},
});
// clang-format on

/// The numbers on which predictions depend, the most influential ones first.
std::vector<size_t> by_influence(std::vector<FittedParameter>& parameters,
                                 const RuntimeProfile& profile, const PredictSteps& predict) {
  constexpr double kMore = 1.1, kLeast = 2e-3;
  const std::vector<double> before = predict(profile);
  std::vector<size_t> order;
  for (size_t j = 0; j < parameters.size(); ++j) {
    FittedParameter& each = parameters[j];
    if (each.before <= 0) continue;  // a profile without it
    RuntimeProfile other = profile;
    each.parameter->set(other, kMore * each.before);
    const std::vector<double> after = predict(other);
    for (size_t i = 0; i < before.size(); ++i)
      each.influence = std::max(each.influence, std::abs(after[i] / before[i] - 1));
    if (each.influence > kLeast) order.push_back(j);
  }
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t j) { return parameters[j].influence; });
  return order;
}

}  // namespace

std::span<const ProfileParameter> profile_parameters() {
  return kParameters;
}

ProfileFit fit_profile(const RuntimeProfile& profile, const PredictSteps& predict,
                       std::span<const double> measured, const ProfileFitOptions& options) {
  ProfileFit result{profile, {}};
  for (const ProfileParameter& parameter : kParameters) {
    const double value = parameter.get(profile);
    result.parameters.push_back({&parameter, value, value});
  }
  std::vector<size_t> fitted = by_influence(result.parameters, profile, predict);
  const auto most = static_cast<size_t>(static_cast<double>(measured.size()) /
                                        std::max(options.runs_per_parameter, 1e-9));
  if (fitted.size() > most) fitted.resize(most);
  if (fitted.empty()) return result;
  FactorFit fit{.measurement = options.measurement, .iterations = 8, .outlier = 2};
  std::vector<double> centers;
  for (const size_t j : fitted) {
    const ProfileParameter& parameter = kParameters[j];
    const double center = parameter.get(options.prior);
    const double value = std::clamp(parameter.get(profile), parameter.smallest, parameter.largest);
    centers.push_back(center > 0 ? center : value);
    fit.priors.push_back({parameter.deviation, parameter.smallest / centers.back(),
                          parameter.largest / centers.back()});
    fit.begin.push_back(value / centers.back());
  }
  const auto profile_of = [&](std::span<const double> factors) {
    RuntimeProfile tried = profile;
    for (size_t i = 0; i < fitted.size(); ++i)
      kParameters[fitted[i]].set(tried, factors[i] * centers[i]);
    return tried;
  };
  const std::vector<double> factors =
      fit_factors([&](std::span<const double> tried) { return predict(profile_of(tried)); },
                  measured, fitted.size(), fit);
  result.profile = profile_of(factors);
  for (size_t i = 0; i < fitted.size(); ++i) {
    FittedParameter& each = result.parameters[fitted[i]];
    each.after = factors[i] * centers[i];
    each.is_fitted = true;
  }
  return result;
}

}  // namespace tessera
