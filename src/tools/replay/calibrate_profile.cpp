#include "tools/replay/calibrate_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/threads/on_all_cores.h"

namespace tessera {
namespace {

/// Along the paths of the runs at these places.
std::vector<double> steps_along_paths(const std::vector<ReplayedRun>& runs,
                                      const std::vector<size_t>& places,
                                      const RuntimeProfile& profile) {
  std::vector<double> steps(places.size());
  on_all_cores(std::ssize(places), [&](int64_t i) {
    steps[i] = std::max(runs[places[i]].along_path(profile).value(), 1e-9);
  });
  return steps;
}

ProfileFit fit_along_paths(const std::vector<ReplayedRun>& runs, const std::vector<size_t>& places,
                           const RuntimeProfile& begin, const RuntimeProfile& start) {
  std::vector<double> measured;
  for (const size_t i : places) measured.push_back(runs[i].row().measured.value());
  return fit_profile(
      begin, [&](const RuntimeProfile& tried) { return steps_along_paths(runs, places, tried); },
      measured, {.prior = start});
}

}  // namespace

CalibratedProfile calibrate_profile(std::vector<ReplayedRun>& fitted, const RuntimeProfile& start,
                                    const CalibrateProfileOptions& options) {
  CalibratedProfile result{start, {}, {}};
  std::vector<size_t> all;
  for (size_t i = 0; i < fitted.size(); ++i) {
    all.push_back(i);
    result.runs.push_back({fitted[i].row().name, fitted[i].row().measured});
  }
  const auto simulate_all = [&](Seconds ProfileRun::* step) {
    on_all_cores(std::ssize(fitted), [&](int64_t i) {
      result.runs[i].*step = fitted[i].predict(result.profile, false).step;
    });
  };
  for (int round = 0; round < options.rounds; ++round) {
    simulate_all(round == 0 ? &ProfileRun::before : &ProfileRun::after);
    if (options.progress) {
      double error = 0;
      for (const ProfileRun& run : result.runs)
        error += std::abs((round == 0 ? run.before : run.after).value() / run.measured.value() - 1);
      options.progress(fmt::format("round {} of {}: mean error {:.1f}%", round + 1, options.rounds,
                                   100 * error / static_cast<double>(fitted.size())));
    }
    ProfileFit fit = fit_along_paths(fitted, all, result.profile, start);
    result.profile = std::move(fit.profile);
    result.parameters = std::move(fit.parameters);
    for (FittedParameter& each : result.parameters) each.before = each.parameter->get(start);
  }
  simulate_all(&ProfileRun::after);
  const int folds = std::min<int>(options.folds, static_cast<int>(fitted.size()));
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<size_t> others, own;
    for (const size_t i : all) (static_cast<int>(i) % folds == fold ? own : others).push_back(i);
    if (others.empty()) continue;
    const ProfileFit fit = fit_along_paths(fitted, others, start, start);
    const std::vector<double> steps = steps_along_paths(fitted, own, fit.profile);
    for (size_t i = 0; i < own.size(); ++i) result.runs[own[i]].left_out = Seconds(steps[i]);
  }
  return result;
}

}  // namespace tessera
