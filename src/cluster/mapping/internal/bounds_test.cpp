// Lower bounds of grids against all sets and all divisions of small grids, and what they are close
// to on large ones.
#include "cluster/mapping/internal/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "cluster/mapping/internal/device_tree.h"
#include "cluster/mapping/internal/down_sets.h"
#include "cluster/mapping/internal/parts.h"
#include "cluster/mapping/mapping.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

constexpr auto kRing = AxisPattern::kRing;
constexpr auto kChain = AxisPattern::kChain;
constexpr auto kAllPairs = AxisPattern::kAllPairs;

/// By size of a set of ranks: the most sends inside of one, a rank, weighted by axis.
std::vector<double> max_by_size(const RankGrid& grid, const std::vector<double>& weight) {
  std::vector<std::pair<unsigned, double>> sends;  // both ends as a set, and the weight
  for (size_t i = 0; i < grid.axes.size(); ++i)
    for (const RankTraffic& sent : axis_traffic(grid, static_cast<int>(i)))
      sends.emplace_back(1U << sent.from | 1U << sent.to, weight[i]);
  std::vector<double> largest(grid.size() + 1, 0);
  for (unsigned set = 1; set < 1U << grid.size(); ++set) {
    double sum = 0;
    for (const auto& [ends, counted] : sends)
      if ((set & ends) == ends) sum += counted;
    double& known = largest[std::popcount(set)];
    known = std::max(known, sum / std::popcount(set));
  }
  return largest;
}

TEST(MappingBound, NoSetOfAGridKeepsMoreThanTheBound) {
  const auto ring = AxisPattern::kRing;
  const auto chain = AxisPattern::kChain;
  const auto all = AxisPattern::kAllPairs;
  const std::vector<RankGrid> grids = {{{{"a", 3, ring}, {"b", 4, all}}},
                                       {{{"a", 4, ring}, {"b", 3, chain}}},
                                       {{{"a", 2, ring}, {"b", 3, all}, {"c", 2, chain}}},
                                       {{{"a", 6, chain}, {"b", 2, all}}},
                                       {{{"a", 2, all}, {"b", 6, all}}},
                                       {{{"a", 12, ring}}}};
  for (const RankGrid& grid : grids)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Dice dice(seed);
      std::vector<double> weight;
      for (size_t i = 0; i < grid.axes.size(); ++i) weight.push_back(0.1 + dice.uniform());
      const std::vector<double> largest = max_by_size(grid, weight);
      for (int size = 1; size <= grid.size(); ++size)
        EXPECT_LE(largest[size], max_inside(grid, weight, size) * (1 + 1e-9))
            << "size " << size << " seed " << seed;
    }
}

TEST(DownSets, OfTwoAxesKeepTheMostOfAllSets) {
  const std::vector<RankGrid> grids = {{{{"a", 3, kRing}, {"b", 4, kAllPairs}}},
                                       {{{"a", 4, kRing}, {"b", 3, kChain}}},
                                       {{{"a", 6, kChain}, {"b", 2, kAllPairs}}},
                                       {{{"a", 5, kRing}, {"b", 3, kRing}}},
                                       {{{"a", 12, kRing}}}};
  for (const RankGrid& grid : grids)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Dice dice(seed);
      std::vector<double> weight;
      for (size_t i = 0; i < grid.axes.size(); ++i) weight.push_back(0.1 + dice.uniform());
      const std::vector<double> largest = max_by_size(grid, weight);
      for (int size = 1; size <= grid.size(); ++size)
        EXPECT_NEAR(max_sends_of_set(grid, weight, size).value(), size * largest[size], 1e-9)
            << "size " << size << " seed " << seed;
    }
}

TEST(DownSets, OfThreeAxesKeepNoLessThanAnySet) {
  const RankGrid grid{{{"a", 2, kRing}, {"b", 3, kAllPairs}, {"c", 2, kChain}}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Dice dice(seed);
    const std::vector<double> weight{dice.uniform(), dice.uniform(), dice.uniform()};
    const std::vector<double> largest = max_by_size(grid, weight);
    for (int size = 1; size <= grid.size(); ++size)
      EXPECT_GE(max_sends_of_set(grid, weight, size).value(), size * largest[size] - 1e-9);
  }
}

TEST(DownSets, OfLargeSetsOfLargeGridsAreLeftOut) {
  const RankGrid grid{{{"a", 256, kRing}, {"b", 256, kRing}}};
  EXPECT_FALSE(max_sends_of_set(grid, {1, 1}, 16384).has_value());
}

TEST(Parts, OfChainsAreAsFewAsAPathThroughLinesAndGroupsHas) {
  // 7 lines of 8 and 4 groups of 14 share 56 ranks: at least 7 + 4 - 1 = 10 parts. Of 56 ranks 46
  // have a next one in their part, in both directions.
  EXPECT_EQ(max_sends_inside({"a", 8, kChain}, 56, 14), 92);
  // 112 ranks are twice as many, in two parts that share nothing.
  EXPECT_EQ(max_sends_inside({"a", 8, kChain}, 112, 14), 184);
  // Groups of whole lines cut none.
  EXPECT_EQ(max_sends_inside({"a", 8, kChain}, 64, 16), 2 * 8 * 7);
  EXPECT_EQ(max_sends_inside({"a", 8, kRing}, 64, 16), 64);
  // Parts of a line that is longer than a group: 4 of each ring of 8.
  EXPECT_EQ(max_sends_inside({"a", 8, kRing}, 64, 4), 64 - 16);
}

TEST(Parts, OfPairsCannotFillAnOddGroup) {
  // A group of 7 has 3 pairs and one rank without its partner: 6 sends in each of two groups.
  EXPECT_NEAR(max_sends_inside({"a", 2, kAllPairs}, 14, 7), 12, 1e-3);
}

TEST(Parts, OfAllPairsMatchBetweenLinesAndGroups) {
  // Groups of 3 take 3 ranks of a line of 4 and leave one: of 4 groups 3 have 3 x 2 sends, and the
  // last one has ranks of three lines. Each by itself could have 6.
  EXPECT_NEAR(max_sends_inside({"a", 4, kAllPairs}, 12, 3), 18, 1e-3);
  // 14 = 8 + 6 leaves parts of 2, three of which fill a group with a line of 8:
  // 3 (8 x 7 + 6 x 5) + (8 x 7 + 3 x 2) = 320 for 4 groups, where 4 x 86 = 344.
  const double largest = max_sends_inside({"a", 8, kAllPairs}, 56, 14);
  EXPECT_GE(largest, 320 - 1e-6);
  EXPECT_LE(largest, 321);
}

/// The least cost of a grid over all divisions of its ranks into equal groups: a send inside of a
/// group costs `near`, another one `far`, in seconds a byte.
double min_of_all_divisions(const RankGrid& grid, int size, double near, double far) {
  std::vector<RankTraffic> sends;
  for (size_t i = 0; i < grid.axes.size(); ++i)
    for (const RankTraffic& sent : axis_traffic(grid, static_cast<int>(i))) sends.push_back(sent);
  std::vector<int> group(grid.size(), -1), filled(grid.size() / size, 0);
  double smallest = 1e300;
  const std::function<void(int, double)> choose = [&](int rank, double cost) {
    if (cost >= smallest) return;
    if (rank == grid.size()) {
      smallest = cost;
      return;
    }
    for (int g = 0; g < std::ssize(filled); ++g) {
      if (filled[g] == size) continue;
      group[rank] = g;
      ++filled[g];
      double added = 0;
      for (const RankTraffic& sent : sends)
        if (std::max(sent.from, sent.to) == rank)
          added += static_cast<double>(sent.bytes.value()) *
                   (group[sent.from] == group[sent.to] ? near : far);
      choose(rank + 1, cost + added);
      --filled[g];
      if (filled[g] == 0) break;  // the other empty groups are alike
    }
    group[rank] = -1;
  };
  choose(0, 0);
  return smallest;
}

TEST(MappingBound, OfGridsIsBelowTheBestDivisionAndOftenEqual) {
  const std::vector<std::vector<int>> sides = {{12}, {4, 3}, {6, 2}, {2, 3, 2}};
  int cases = 0, exact = 0;
  for (uint64_t seed = 0; seed < 24; ++seed)
    for (const int size : {2, 3, 4, 6}) {
      Dice dice(seed);
      RankGrid grid;
      for (int side : sides[dice.below(4)])
        grid.axes.push_back({"a", side, static_cast<AxisPattern>(dice.below(3)),
                             Bytes(1000 + dice.below(9000)), 0, 1});
      const double smallest = min_of_all_divisions(grid, size, 1, 4);
      const std::vector<TreeLevel> levels = {{{1, 0}, std::vector<int>(12 / size, size)},
                                             {{4, 0}, {12}}};
      const double bound = grid_bound(grid, levels);
      EXPECT_LE(bound, smallest * (1 + 1e-6)) << "seed " << seed << " size " << size;
      EXPECT_GE(bound, smallest * 0.85) << "seed " << seed << " size " << size;
      ++cases;
      exact += bound >= smallest * (1 - 1e-6);
    }
  EXPECT_GE(exact, cases / 2);
}

TEST(MappingBound, ImprovedByConfigurationsIsBelowTheCostOfMappings) {
  int cases = 0, improved = 0;
  for (uint64_t seed = 0; cases < 150; ++seed) {
    Dice dice(seed);
    const std::vector<int> fans{2 + dice.below(8), 2 + dice.below(6), 1 + dice.below(4)};
    const Cluster cluster(tree_of(fans, 300, 1.5 + 6 * dice.uniform()));
    RankGrid grid;
    // Of some trees a part of the places stays free.
    int left = std::max(1, cluster.device_count() - (dice.below(2) == 0 ? 0 : dice.below(6)));
    for (int axes = 1 + dice.below(4); axes > 0 && left > 1; --axes) {
      int side = axes == 1 ? left : 1 + dice.below(left);
      while (left % side != 0) ++side;
      left /= side;
      grid.axes.push_back({"a", side, static_cast<AxisPattern>(dice.below(3)),
                           Bytes(1'000'000 + dice.below(60'000'000)), 1.0 * dice.below(50), 1});
    }
    const MappingInput input = grid_input(grid.axes);
    const DeviceTree tree(cluster);
    GridBound bound(grid, levels_of(tree));
    const double before = bound.value();
    // The best mapping that is known, and one at random.
    const Mapping mapping = map_ranks(input, cluster);
    std::vector<Place> at_random(tree.size());
    std::iota(at_random.begin(), at_random.end(), 0);
    for (size_t i = at_random.size(); i > 1; --i)
      std::swap(at_random[i - 1], at_random[dice.below(static_cast<int>(i))]);
    bound.improve(grid, tree, at_random);
    EXPECT_LE(bound.value(), mapping.cost.cost.value() * (1 + 1e-9)) << "seed " << seed;
    EXPECT_GE(bound.value(), before);
    improved += bound.value() > before * (1 + 1e-6) ? 1 : 0;
    ++cases;
  }
  EXPECT_GT(improved, 15);
}

struct Close {
  std::vector<int> fans;
  std::vector<GridAxis> axes;
};

/// A grid whose ranks send n megabytes on each axis.
GridAxis megabytes(int size, AxisPattern pattern, double count) {
  return {std::to_string(size), size, pattern, Bytes(static_cast<int64_t>(count * 1e6))};
}

TEST(MappingBound, IsWithinFivePercentWhereBoundsByEntropyAreNot) {
  const std::vector<Close> cases = {
      {{16, 16, 16},
       {megabytes(64, kChain, 3.4), megabytes(2, kChain, 3.8), megabytes(32, kAllPairs, 0.04)}},
      {{16, 16, 16},
       {megabytes(32, kAllPairs, 0.2), megabytes(64, kChain, 16.2), megabytes(2, kRing, 1.7)}},
      // Lines that groups cannot hold whole.
      {{7, 10, 51}, {megabytes(1785, kRing, 3.2), megabytes(2, kAllPairs, 97.6)}},
      {{3, 28}, {megabytes(42, kAllPairs, 1.1), megabytes(2, kAllPairs, 15.8)}},
      {{31, 3}, {megabytes(3, kRing, 12.9), megabytes(31, kChain, 11.4)}},
      {{25, 13}, {megabytes(25, kAllPairs, 1.6), megabytes(13, kChain, 93.8)}},
      // Sides that do not divide groups, along two axes and more.
      {{11, 2, 3}, {megabytes(11, kChain, 5.3), megabytes(6, kChain, 26.7)}},
      {{11, 44}, {megabytes(121, kRing, 3.2), megabytes(4, kChain, 26.5)}},
      {{9, 5, 4},
       {megabytes(9, kChain, 26.5), megabytes(4, kChain, 11.7), megabytes(5, kChain, 4.1)}},
      {{56, 12},
       {megabytes(32, kAllPairs, 0.1), megabytes(3, kChain, 15.6), megabytes(7, kAllPairs, 10.4)}}};
  for (const Close& one : cases)
    EXPECT_LE(map_ranks(grid_input(one.axes), Cluster(tree_of(one.fans, 300, 4))).gap(), 0.05)
        << one.fans.front() << " of " << one.axes.front().name;
}

}  // namespace
}  // namespace tessera
