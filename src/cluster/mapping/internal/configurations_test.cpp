// The bound by configurations against all divisions of small grids into equal groups.
#include "cluster/mapping/internal/configurations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "cluster/mapping/internal/mapping_input.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

/// The most sends inside, weighted by axis, over all divisions into groups of `size` ranks: over
/// sets of ranks that are divided, by the group of the lowest one of them.
double max_over_all_divisions(const RankGrid& grid, const std::vector<double>& weight, int size) {
  const unsigned all = (1U << grid.size()) - 1;
  std::vector<std::pair<unsigned, double>> sends;  // both ends as a set, and the weight
  for (size_t i = 0; i < grid.axes.size(); ++i)
    for (const RankTraffic& sent : axis_traffic(grid, static_cast<int>(i)))
      sends.emplace_back(1U << sent.from | 1U << sent.to, weight[i]);
  std::vector<std::pair<unsigned, double>> groups;
  for (unsigned set = 1; set <= all; ++set) {
    if (std::popcount(set) != size) continue;
    double inside = 0;
    for (const auto& [ends, counted] : sends)
      if ((set & ends) == ends) inside += counted;
    groups.emplace_back(set, inside);
  }
  std::vector<double> largest(all + 1, -std::numeric_limits<double>::infinity());
  largest[0] = 0;
  for (unsigned divided = 1; divided <= all; ++divided) {
    if (std::popcount(divided) % size != 0) continue;
    const unsigned lowest = divided & -divided;
    for (const auto& [group, inside] : groups)
      if ((group & lowest) != 0 && (group & divided) == group)
        largest[divided] = std::max(largest[divided], inside + largest[divided ^ group]);
  }
  return largest[all];
}

/// Bounds of random grids and the best of all divisions into equal groups of each size.
struct Compared {
  int cases = 0;
  int equal = 0;  // within a thousandth
};

void compare(const std::vector<int>& sides, Dice& dice, Compared& compared) {
  RankGrid grid;
  std::vector<double> weight;
  for (int side : sides) {
    grid.axes.push_back({"a", side, static_cast<AxisPattern>(dice.below(3))});
    weight.push_back(dice.below(10) == 0 ? 0 : 0.1 + dice.uniform());
  }
  for (int size = 2; size < grid.size(); ++size) {
    if (grid.size() % size != 0) continue;
    const std::vector<int> groups(grid.size() / size, size);
    const double largest = max_over_all_divisions(grid, weight, size);
    const double bound = max_inside_of_groups(grid, weight, groups, largest);
    EXPECT_GE(bound, largest * (1 - 1e-9)) << "size " << size;
    // Steps towards what no division has.
    EXPECT_GE(max_inside_of_groups(grid, weight, groups, largest / 2), largest * (1 - 1e-9))
        << "size " << size;
    ++compared.cases;
    compared.equal += bound <= largest * (1 + 1e-3) ? 1 : 0;
  }
}

TEST(Configurations, NoDivisionOfASmallGridKeepsMoreThanTheBound) {
  const std::vector<std::vector<int>> sides = {{12}, {10},   {4, 3},    {6, 2},    {5, 2},
                                               {9},  {3, 3}, {2, 3, 2}, {2, 2, 2}, {3, 2, 2},
                                               {8},  {2, 5}, {1, 4, 2}};
  Compared compared;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    compare(sides[dice.below(static_cast<int>(sides.size()))], dice, compared);
  }
  EXPECT_GT(compared.cases, 1600);
  EXPECT_GE(compared.equal, compared.cases / 2);
}

TEST(Configurations, NoDivisionOfALargerGridKeepsMoreThanTheBound) {
  const std::vector<std::vector<int>> sides = {{5, 3}, {7, 2}, {3, 5}};
  Compared compared;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    compare(sides[seed % 3], dice, compared);
  }
  EXPECT_GE(compared.equal, compared.cases / 4);
}

/// The same over all divisions among groups of at most these sizes.
double max_inside_among(const RankGrid& grid, const std::vector<double>& weight,
                        const std::vector<int>& sizes) {
  const unsigned all = (1U << grid.size()) - 1;
  std::vector<double> inside(all + 1, 0);
  for (size_t i = 0; i < grid.axes.size(); ++i)
    for (const RankTraffic& sent : axis_traffic(grid, static_cast<int>(i)))
      for (unsigned set = 0; set <= all; ++set)
        if ((set >> sent.from & set >> sent.to & 1U) != 0) inside[set] += weight[i];
  std::vector<double> largest(all + 1, -std::numeric_limits<double>::infinity());
  largest[0] = 0;
  for (const int size : sizes) {
    std::vector<double> next = largest;
    for (unsigned divided = 1; divided <= all; ++divided)
      for (unsigned group = divided; group != 0; group = (group - 1) & divided)
        if (std::popcount(group) <= size)
          next[divided] = std::max(next[divided], inside[group] + largest[divided ^ group]);
    largest = std::move(next);
  }
  return largest[all];
}

TEST(Configurations, NoDivisionAmongUnlikeGroupsKeepsMoreThanTheBound) {
  const std::vector<std::vector<int>> sides = {{7}, {3, 3}, {4, 2}, {2, 2, 2}, {5}, {3, 2}, {2, 5}};
  int equal = 0;
  constexpr int kCases = 1000;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    Dice dice(seed);
    RankGrid grid;
    std::vector<double> weight;
    for (int side : sides[dice.below(static_cast<int>(sides.size()))]) {
      grid.axes.push_back({"a", side, static_cast<AxisPattern>(dice.below(3))});
      weight.push_back(dice.below(10) == 0 ? 0 : 0.1 + dice.uniform());
    }
    std::vector<int> sizes;
    for (int places = 0; places < grid.size(); places += sizes.back())
      sizes.push_back(1 + dice.below(5));
    if (dice.below(3) == 0) sizes.push_back(1 + dice.below(3));
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    const double largest = max_inside_among(grid, weight, sizes);
    const double bound = max_inside_of_groups(grid, weight, sizes, largest);
    EXPECT_GE(bound, largest * (1 - 1e-9)) << "seed " << seed;
    EXPECT_GE(max_inside_of_groups(grid, weight, sizes, largest / 2), largest * (1 - 1e-9))
        << "seed " << seed;
    equal += bound <= largest * (1 + 1e-3) ? 1 : 0;
  }
  EXPECT_GE(equal, kCases / 2);
}

TEST(Configurations, OfPairsCannotFillAnOddGroup) {
  // A group of 7 has 3 pairs and one rank without its partner: 6 sends in each of two groups.
  const RankGrid grid{{{"a", 7, AxisPattern::kRing}, {"b", 2, AxisPattern::kAllPairs}}};
  EXPECT_NEAR(max_inside_of_groups(grid, {0, 1}, {7, 7}, 12), 12, 1e-2);
}

TEST(Configurations, OfLinesThatNoGroupHoldsMatchBetweenGroups) {
  // Groups of 4 of a chain of 5 and a chain of 4 without weight: five groups of 4 from four lines
  // of 5 are at least 5 + 4 - 1 = 8 parts, so at most 20 - 8 = 12 of the edges stay inside.
  const RankGrid grid{{{"a", 4, AxisPattern::kChain}, {"b", 5, AxisPattern::kChain}}};
  EXPECT_NEAR(max_inside_of_groups(grid, {0, 1}, {4, 4, 4, 4, 4}, 24), 24, 0.05);
}

TEST(Configurations, OfNoTrafficKeepNothing) {
  const RankGrid grid{{{"a", 4, AxisPattern::kRing}, {"b", 5, AxisPattern::kRing}}};
  EXPECT_EQ(max_inside_of_groups(grid, {0, 0}, {5, 5, 5, 5}, 0), 0);
}

}  // namespace
}  // namespace tessera
