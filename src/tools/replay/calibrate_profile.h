// A profile that is fitted to the measured runs of tables.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/calibration/fit_profile.h"
#include "tools/replay/replayed_run.h"

namespace tessera {

/// What a run tells of a fitted profile.
struct ProfileRun {
  std::string name;
  Seconds measured{0}, before{0}, after{0};
  /// By a profile that was fitted without the run and others of its part, a fifth of the runs.
  Seconds left_out{0};
};

struct CalibratedProfile {
  RuntimeProfile profile;
  std::vector<FittedParameter> parameters;  // of the last fit
  std::vector<ProfileRun> runs;
};

struct CalibrateProfileOptions {
  int rounds = 3;  // of a simulation of all runs and a fit along their critical paths
  int folds = 5;
  std::function<void(const std::string&)> progress = {};
};

/// Each round simulates all runs, and fits along the critical paths; what is left out is fitted
/// along the last ones, beginning with `start`.
///   requires  fitted is not empty
CalibratedProfile calibrate_profile(std::vector<ReplayedRun>& fitted, const RuntimeProfile& start,
                                    const CalibrateProfileOptions& options);

}  // namespace tessera
