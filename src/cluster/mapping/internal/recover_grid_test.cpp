// Grids that are found in traffic which is given pair by pair.
#include "cluster/mapping/internal/recover_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "cluster/mapping/mapping.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

constexpr auto kRecoverGridRing = AxisPattern::kRing;
constexpr auto kRecoverGridChain = AxisPattern::kChain;
constexpr auto kRecoverGridAllPairs = AxisPattern::kAllPairs;

GridAxis axis(int size, AxisPattern pattern, int64_t bytes, double weight = 1) {
  return {"", size, pattern, Bytes(bytes), 3, weight};
}

/// The traffic of some copies of a grid, with ranks in random order.
MappingInput renamed(const std::vector<GridAxis>& axes, int copies = 1, uint64_t seed = 1) {
  const MappingInput grid = grid_input(axes);
  const int ranks = grid.grid->size();
  Dice dice(seed);
  std::vector<Rank> name(copies * ranks);
  std::iota(name.begin(), name.end(), 0);
  for (size_t i = name.size(); i > 1; --i)
    std::swap(name[i - 1], name[dice.below(static_cast<int>(i))]);
  MappingInput made;
  made.needs.resize(name.size());
  for (int copy = 0; copy < copies; ++copy)
    for (RankTraffic sent : all_traffic(grid)) {
      sent.from = name[copy * ranks + sent.from];
      sent.to = name[copy * ranks + sent.to];
      made.traffic.push_back(sent);
    }
  return made;
}

RankGraph graph_of(const MappingInput& input) {
  return {static_cast<int>(input.needs.size()), input.traffic};
}

/// Sizes and patterns of the axes, in no order.
std::multiset<std::pair<int, AxisPattern>> shape_of(const RankGrid& grid) {
  std::multiset<std::pair<int, AxisPattern>> shape;
  for (const GridAxis& one : grid.axes) shape.emplace(one.size, one.pattern);
  return shape;
}

TEST(RecoverGrid, FindsTheAxesOfRanksInRandomOrder) {
  const auto grid = recover_grid(
      graph_of(renamed({axis(8, kRecoverGridRing, 400), axis(5, kRecoverGridChain, 100),
                        axis(6, kRecoverGridAllPairs, 70)})));
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(shape_of(*grid),
            (std::multiset<std::pair<int, AxisPattern>>{
                {8, kRecoverGridRing}, {5, kRecoverGridChain}, {6, kRecoverGridAllPairs}}));
}

TEST(RecoverGrid, HasTheTrafficOfTheGraph) {
  const RankGraph graph =
      graph_of(renamed({axis(7, kRecoverGridRing, 400, 0.3), axis(4, kRecoverGridChain, 100),
                        axis(2, kRecoverGridRing, 90)}));
  const auto grid = recover_grid(graph);
  ASSERT_TRUE(grid.has_value());
  MappingInput input;
  input.grid = grid;
  const RankGraph found(graph.size(), all_traffic(input));
  for (Rank rank = 0; rank < graph.size(); ++rank) {
    ASSERT_EQ(found.edges(rank).size(), graph.edges(rank).size());
    for (size_t i = 0; i < graph.edges(rank).size(); ++i) {
      EXPECT_EQ(found.edges(rank)[i].to, graph.edges(rank)[i].to);
      EXPECT_NEAR(found.edges(rank)[i].bytes, graph.edges(rank)[i].bytes, 1e-3);
      EXPECT_NEAR(found.edges(rank)[i].messages, graph.edges(rank)[i].messages, 1e-6);
    }
  }
}

TEST(RecoverGrid, NumbersEqualGridsThatExchangeNothing) {
  const auto grid = recover_grid(
      graph_of(renamed({axis(4, kRecoverGridRing, 400), axis(5, kRecoverGridChain, 100)}, 3)));
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->size(), 60);
  EXPECT_EQ(grid->axes.front().size, 3);
  EXPECT_EQ(grid->axes.front().bytes, Bytes(0));
}

TEST(RecoverGrid, FindsNoneWhereTrafficIsMissingOrMore) {
  MappingInput input = renamed({axis(8, kRecoverGridRing, 400), axis(5, kRecoverGridChain, 100)});
  MappingInput less = input;
  less.traffic.pop_back();
  EXPECT_FALSE(recover_grid(graph_of(less)).has_value());
  MappingInput more = input;
  more.traffic.push_back({input.traffic.front().from, input.traffic.back().to, Bytes(5), 1, 1});
  EXPECT_FALSE(recover_grid(graph_of(more)).has_value());
}

TEST(RecoverGrid, FindsNoneInRandomTrafficOrWithoutTraffic) {
  Dice dice(3);
  MappingInput input;
  input.needs.resize(40);
  EXPECT_FALSE(recover_grid(graph_of(input)).has_value());
  for (int i = 0; i < 100; ++i)
    input.traffic.push_back({dice.below(40), dice.below(40), Bytes(100), 1, 1});
  EXPECT_FALSE(recover_grid(graph_of(input)).has_value());
}

TEST(RecoverGrid, FindsNoneWhereTwoAxesSendAlike) {
  EXPECT_FALSE(recover_grid(graph_of(renamed(
                                {axis(8, kRecoverGridRing, 400), axis(6, kRecoverGridRing, 400)})))
                   .has_value());
}

TEST(MapRanks, MapsTrafficAsTheGridThatItIs) {
  const std::vector<GridAxis> axes = {axis(16, kRecoverGridRing, 400'000'000),
                                      axis(4, kRecoverGridChain, 100'000'000),
                                      axis(8, kRecoverGridAllPairs, 50'000'000)};
  const Cluster cluster(tree_of({8, 8, 8}));
  const Mapping of_grid = map_ranks(grid_input(axes), cluster);
  for (const uint64_t seed : {1, 2, 3}) {
    const Mapping of_traffic = map_ranks(renamed(axes, 1, seed), cluster);
    EXPECT_NEAR(of_traffic.cost.cost.value(), of_grid.cost.cost.value(),
                1e-6 * of_grid.cost.cost.value());
    EXPECT_NEAR(of_traffic.gap(), of_grid.gap(), 1e-6);
  }
}

}  // namespace
}  // namespace tessera
