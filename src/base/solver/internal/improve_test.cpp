#include "base/solver/internal/improve.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/solver/testing/random_problems.h"

namespace tessera::solver {
namespace {

/// The core of a network whose forbidden costs were removed first, as a core requires.
Core core_of(const Problem& problem) {
  return Core(Network(problem));
}

TEST(Elimination, SolvesAllNodesExactlyWhereNoLimitBinds) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Problem problem = random_problem(seed, 3, 8, 3);
    problem.set_usage_limit(std::nullopt);
    const std::optional<Wide> smallest = min_cost_by_trying(problem);
    if (!smallest) continue;
    const Core core = core_of(problem);
    std::vector<int32_t> nodes(core.nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
    Elimination elimination(core, nodes, 1'000'000);
    ASSERT_EQ(elimination.nodes().size(), nodes.size());
    std::vector<size_t> place(core.first.begin(), core.first.end() - 1);
    Assignment assignment;
    const double cost = elimination.solve(core.costs, place, assignment);
    EXPECT_EQ(static_cast<Wide>(cost + core.constant), *smallest) << reproducer(problem, seed);
    EXPECT_EQ(static_cast<Wide>(cost_of(core, assignment)), *smallest) << reproducer(problem, seed);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Elimination, LeavesOutNodesWhoseTablesWouldBeTooLarge) {
  Problem problem;
  for (int i = 0; i < 8; ++i)
    problem.add_node({}, std::vector<Cost>(4, 0), std::vector<Usage>(4, 0));
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < i; ++j) problem.add_edge(j, i, std::vector<Cost>(16, 1));
  const Core core = core_of(problem);
  std::vector<int32_t> nodes(8);
  std::iota(nodes.begin(), nodes.end(), 0);
  // Eight nodes are all neighbours: with tables of 4^3, three of them can be eliminated together.
  EXPECT_EQ(Elimination(core, nodes, 64).nodes().size(), 3U);
}

TEST(SlackOverTime, KeepsTheLeastOfRangesWhileTheyChange) {
  Draw draw(3);
  std::vector<Usage> plain(1000);
  for (Usage& slack : plain) slack = draw(0, 1000);
  SlackOverTime slack(plain);
  for (int step = 0; step < 500; ++step) {
    const auto begin = static_cast<int32_t>(draw(0, 999)),
               end = static_cast<int32_t>(draw(begin, 1000));
    const Usage change = draw(-300, 300);
    slack.add(begin, end, change);
    for (int32_t m = begin; m < end; ++m) plain[m] += change;
    const auto from = static_cast<int32_t>(draw(0, 998)),
               to = static_cast<int32_t>(draw(from + 1, 1000));
    ASSERT_EQ(slack.smallest(from, to),
              *std::min_element(plain.begin() + from, plain.begin() + to));
    ASSERT_EQ(slack.smallest(), *std::min_element(plain.begin(), plain.end()));
    ASSERT_EQ(plain[slack.tightest()], slack.smallest());
    double missing = 0;
    for (const Usage at : plain) missing += at < 0 ? static_cast<double>(-at) : 0;
    ASSERT_EQ(slack.missing(), missing);
  }
}

TEST(Position, ManyChangesGiveTheStateOfANewPosition) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem problem = random_problem(seed, 4, 12, 4);
    const Network network(problem);
    if (network.is_infeasible) continue;
    const Core core(network);
    Draw draw(seed);
    Position position(core, Assignment(core.nodes(), 0));
    for (int step = 0; step < 50; ++step) {
      const auto node = static_cast<int32_t>(draw(0, core.nodes() - 1));
      position.set(node, static_cast<int32_t>(draw(0, core.strategies(node) - 1)));
    }
    const Position anew(core, position.assignment());
    EXPECT_EQ(position.worth(), anew.worth()) << reproducer(problem, seed);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Improver, AFeasiblePositionStaysFeasibleAndNeverCostsMore) {
  int improved = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Problem problem = random_problem(seed, 10, 30, 4);
    const Network network(problem);
    if (network.is_infeasible) continue;
    const Core core(network);
    Improver improver(core, Assignment(core.nodes(), 0), seed);
    Worth before = improver.position().worth();
    for (int step = 0; step < 40; ++step) {
      improver.step({.nodes = 8, .seeds = 1 + step % 3, .largest_table = 500});
      const Worth after = improver.position().worth();
      ASSERT_LE(after, before) << reproducer(problem, seed);
      improved += after < before ? 1 : 0;
      before = after;
    }
  }
  EXPECT_GT(improved, 0);
}

}  // namespace
}  // namespace tessera::solver
