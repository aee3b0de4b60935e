// The largest of many numbers, without a chain of comparisons that await each other.
#pragma once

#include <cstddef>

namespace tessera {

/// The largest of `start` and term(0), ..., term(count - 1), which may be called in any order. A
/// term that is NaN does not count; a start that is NaN stays.
///
/// Independent lanes, without branches: the compiler makes vectors of them when `term` permits.
template <typename Term>
double largest_of(size_t count, double start, const Term& term) {
  constexpr size_t kLanes = 8;
  double largest[kLanes];
  for (double& lane : largest) lane = start;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = term(i + lane);
      largest[lane] = largest[lane] < value ? value : largest[lane];
    }
  double result = start;
  for (const double lane : largest) result = result < lane ? lane : result;
  for (; i < count; ++i) {
    const double value = term(i);
    result = result < value ? value : result;
  }
  return result;
}

}  // namespace tessera
