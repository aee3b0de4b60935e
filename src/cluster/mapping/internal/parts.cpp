#include "cluster/mapping/internal/parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace tessera {
namespace {

/// The most of a sum of values of parts, and how many parts of each size have it.
struct Packing {
  double value = 0;
  std::vector<int> parts;  // by size
};

/// Parts whose sizes add up to `total`; `value` by size, from 1 on.
Packing best_packing(int total, const std::vector<double>& value) {
  const int largest = static_cast<int>(value.size()) - 1;
  std::vector<double> maximum(total + 1, 0);
  std::vector<int> last(total + 1, 0);
  for (int r = 1; r <= total; ++r) {
    maximum[r] = -std::numeric_limits<double>::infinity();
    for (int k = 1; k <= std::min(r, largest); ++k) {
      const double with = maximum[r - k] + value[k];
      if (with <= maximum[r]) continue;
      maximum[r] = with;
      last[r] = k;
    }
  }
  Packing packing{maximum[total], std::vector<int>(value.size(), 0)};
  for (int r = total; r > 0; r -= last[r]) ++packing.parts[last[r]];
  return packing;
}

/// Ordered pairs inside of parts, when lines follow each other through the groups.
double pairs_in_a_row(int64_t ranks, int line, int64_t size) {
  double pairs = 0;
  for (int64_t at = 0; at < ranks;) {
    const int64_t end = std::min((at / line + 1) * line, (at / size + 1) * size);
    pairs += static_cast<double>((end - at) * (end - at - 1));
    at = end;
  }
  return pairs;
}

double max_pairs(int line, int64_t ranks, int64_t size) {
  const int largest = static_cast<int>(std::min<int64_t>(line, size));
  const double simple = static_cast<double>(ranks) * (largest - 1);
  constexpr int64_t kMaxWork = 400'000;  // of one packing
  if ((size % line == 0) || (size + line) * largest > kMaxWork) return simple;
  const auto all = static_cast<double>(ranks);
  const double lines = all / line, groups = all / static_cast<double>(size);
  const double reached = pairs_in_a_row(ranks, line, size);
  // A part is worth its pairs to the group, less what the line asks for it.
  std::vector<double> asked(largest + 1, 0), kept(largest + 1);
  double best = simple;
  constexpr int kSteps = 120;
  double scale = 1;
  for (int step = 0, fruitless = 0; step < kSteps && best > reached * (1 + 1e-6); ++step) {
    for (int k = 1; k <= largest; ++k) kept[k] = static_cast<double>(k) * (k - 1) - asked[k];
    const Packing group = best_packing(static_cast<int>(size), kept);
    const Packing cut = best_packing(line, asked);
    const double value = groups * group.value + lines * cut.value;
    fruitless = value < best ? 0 : fruitless + 1;
    best = std::min(best, value);
    if (fruitless > 5) {
      scale /= 2;
      fruitless = 0;
    }
    double square = 0;
    std::vector<double> slope(largest + 1, 0);
    for (int k = 1; k <= largest; ++k) {
      slope[k] = lines * cut.parts[k] - groups * group.parts[k];
      square += slope[k] * slope[k];
    }
    if (square == 0) break;
    const double length = scale * (value - reached) / square;
    for (int k = 1; k <= largest; ++k) asked[k] -= length * slope[k];
  }
  return best;
}

}  // namespace

double max_sends_inside(const GridAxis& axis, int64_t ranks, int64_t size) {
  if (axis.pattern == AxisPattern::kAllPairs) return max_pairs(axis.size, ranks, size);
  const int64_t lines = ranks / axis.size, groups = ranks / size;
  const int64_t connected = ranks / std::lcm<int64_t>(axis.size, size);
  const int64_t parts = lines + groups - connected;
  if (axis.pattern == AxisPattern::kChain) return 2.0 * static_cast<double>(ranks - parts);
  // A whole ring keeps the send from its end to its begin, too.
  const int64_t whole = axis.size > 1 ? std::min(lines, groups * (size / axis.size)) : 0;
  return static_cast<double>(ranks - parts + whole);
}

}  // namespace tessera
