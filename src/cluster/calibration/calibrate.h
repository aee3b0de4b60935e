// Corrects a cluster by measured runs. This module knows clusters and times; it knows no plans and
// no task graphs: a run is a measured time and a function that predicts it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/calibration/internal/constants.h"
#include "cluster/calibration/internal/least_squares.h"
#include "cluster/cluster/cluster.h"

namespace tessera {

/// A run of which the time of a step was measured.
struct MeasuredStepOfRun {
  std::string name;
  Seconds measured{0};  // above 0
  std::function<Seconds(const Cluster&)> predict;
  bool is_fitted = true;  // false: it is left out of the fit, and only compared
};

struct FittedConstant {
  Constant constant;
  double factor = 1;  // of its time
};

/// A run before and after.
struct CalibratedRun {
  std::string name;
  Seconds measured{0}, before{0}, after{0};
  bool is_fitted = true;

  double error_before() const { return before.value() / measured.value() - 1; }
  double error_after() const { return after.value() / measured.value() - 1; }
};

struct Calibration {
  ClusterDescription description;         // the corrected one, with the sources of what changed
  std::vector<FittedConstant> constants;  // those on which a fitted run depends
  std::vector<CalibratedRun> runs;        // in the order given

  /// The mean of the absolute errors of the runs that were fitted, or of those left out; 0 of none.
  double mean_error(bool fitted, bool after) const;
};

/// Fits the constants on which at least one fitted run depends by more than a thousandth.
///
///   runs     at least one is fitted
///   source   of the changed values: "calibrated 2026-11-23 by 4 runs"
///   time     that of fit_factors
Calibration calibrate(const ClusterDescription& description,
                      const std::vector<MeasuredStepOfRun>& runs, const std::string& source,
                      const FactorFit& fit = {});

}  // namespace tessera
