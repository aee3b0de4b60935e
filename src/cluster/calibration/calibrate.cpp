#include "cluster/calibration/calibrate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera {
namespace {

/// The predicted steps of the fitted runs.
std::vector<double> predict(const std::vector<MeasuredStepOfRun>& runs, const Cluster& cluster) {
  std::vector<double> times;
  for (const MeasuredStepOfRun& run : runs)
    if (run.is_fitted) times.push_back(run.predict(cluster).value());
  return times;
}

/// The constants that change a prediction when their time is twice as long.
std::vector<Constant> constants_that_count(const ClusterDescription& description,
                                           const std::vector<MeasuredStepOfRun>& runs) {
  constexpr double kMinChange = 1e-3;
  const std::vector<double> before = predict(runs, Cluster(description));
  std::vector<Constant> list;
  for (const Constant& constant : constants_of(description)) {
    const double twice = 2;
    const std::vector<double> after =
        predict(runs, Cluster(with_factors(description, {&constant, 1}, {&twice, 1}, "")));
    for (size_t i = 0; i < before.size(); ++i)
      if (std::abs(after[i] / before[i] - 1) > kMinChange) {
        list.push_back(constant);
        break;
      }
  }
  return list;
}

}  // namespace

double Calibration::mean_error(bool fitted, bool after) const {
  double sum = 0;
  int count = 0;
  for (const CalibratedRun& run : runs) {
    if (run.is_fitted != fitted) continue;
    sum += std::abs(after ? run.error_after() : run.error_before());
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

Calibration calibrate(const ClusterDescription& description,
                      const std::vector<MeasuredStepOfRun>& runs, const std::string& source,
                      const FactorFit& fit) {
  std::vector<double> measured;
  for (const MeasuredStepOfRun& run : runs)
    if (run.is_fitted) measured.push_back(run.measured.value());
  ensure(!measured.empty(), "a calibration has a run to fit");
  const std::vector<Constant> constants = constants_that_count(description, runs);
  const std::vector<double> factors = fit_factors(
      [&](std::span<const double> tried) {
        return predict(runs, Cluster(with_factors(description, constants, tried, source)));
      },
      measured, constants.size(), fit);
  Calibration result{with_factors(description, constants, factors, source), {}, {}};
  for (size_t i = 0; i < constants.size(); ++i)
    result.constants.push_back({constants[i], factors[i]});
  const Cluster before(description), after(result.description);
  for (const MeasuredStepOfRun& run : runs)
    result.runs.push_back(
        {run.name, run.measured, run.predict(before), run.predict(after), run.is_fitted});
  return result;
}

}  // namespace tessera
