#include "tools/replay/replay_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera {

double quantile(std::vector<double> numbers, double part) {
  std::ranges::sort(numbers);
  const double at = part * static_cast<double>(numbers.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, numbers.size() - 1);
  return numbers[below] + (at - std::floor(at)) * (numbers[above] - numbers[below]);
}

ErrorStatistics statistics_of(std::span<const double> errors) {
  ErrorStatistics result;
  if (errors.empty()) return result;
  std::vector<double> sizes;
  for (const double error : errors) sizes.push_back(std::abs(error));
  const auto count = static_cast<double>(errors.size());
  result.count = std::ssize(errors);
  result.mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count;
  result.bias = std::accumulate(errors.begin(), errors.end(), 0.0) / count;
  result.median = quantile(sizes, 0.5);
  result.p90 = quantile(sizes, 0.9);
  result.worst = std::ranges::max(sizes);
  return result;
}

}  // namespace tessera
