// Factors that fit predictions to measurements. This file knows numbers only.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace tessera {

/// What is known of one factor before anything is measured.
struct FactorPrior {
  double deviation = 0.3;  // of the logarithm
  double smallest = 0.25, largest = 4;
};

struct FactorFit {
  /// The standard deviation of the logarithm of a measurement beside a perfect prediction.
  double measurement = 0.03;
  /// The standard deviation of the logarithm of a factor before anything is measured: what no
  /// measurement tells of stays at 1.
  double factor = 0.3;
  double largest = 4;  // factors are within [1 / largest, largest]
  int iterations = 12;
  /// By factor, in place of `factor` and `largest`; empty: they are those of all.
  std::vector<FactorPrior> priors = {};
  std::vector<double> begin = {};  // the first factors that are tried; empty: 1
  /// An error of more than so many of its standard deviations counts in proportion, no longer
  /// squared (Huber, Annals of Mathematical Statistics 35, 1964).
  double outlier = std::numeric_limits<double>::infinity();
};

/// The factors x, of which each begins at 1, that minimize
///
///     sum over i of (log(predict(x)[i] / measured[i]) / measurement)^2
///     + sum over j of (log(x[j]) / factor)^2
///
/// within their bounds: the most likely ones when both deviations are those of normal
/// distributions. The method is that of Gauss and Newton in the logarithms, with derivatives by
/// differences, bounds by projection, and shorter steps where a step does not lower the sum.
///
///   predict   by factors: a prediction above 0 for each measurement
///   measured  each above 0
///   ensures   the sum is not larger than that of factors of 1
///   time      about `iterations` x (factors + 2) predictions
std::vector<double> fit_factors(
    const std::function<std::vector<double>(std::span<const double>)>& predict,
    std::span<const double> measured, size_t factors, const FactorFit& fit = {});

}  // namespace tessera
