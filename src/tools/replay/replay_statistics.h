// How far predictions of runs are from what was measured.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera {

/// predicted / measured - 1 of several runs, in short.
struct ErrorStatistics {
  int64_t count = 0;
  double mean = 0, median = 0, p90 = 0, worst = 0;  // of absolute errors
  double bias = 0;                                  // the mean error with its sign
};

/// 0 of none.
ErrorStatistics statistics_of(std::span<const double> errors);

/// The value below which the part `part` of the numbers is, linear between two of them.
///   requires  not empty
double quantile(std::vector<double> numbers, double part);

}  // namespace tessera
