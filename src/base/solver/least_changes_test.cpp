#include "base/solver/least_changes.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::solver {
namespace {

/// Two nodes and an edge between them.
Problem two_nodes(const std::vector<Cost>& a, const std::vector<Cost>& b,
                  const std::vector<Cost>& edge) {
  Problem problem;
  problem.add_node({0, 1}, a, std::vector<Usage>(a.size(), 0));
  problem.add_node({0, 1}, b, std::vector<Usage>(b.size(), 0));
  problem.add_edge(0, 1, edge);
  return problem;
}

// From {0, 0}, which costs 1 + 1 + 0: strategy 1 of node 0 costs 2 + 1 + 10, strategies 1 and 2 of
// node 1 cost 1 + 4 + 3 and 1 + 5 + 1.
TEST(LeastChanges, AreTheNextBestStrategyOfEachNodeWithItsEdges) {
  const Problem problem = two_nodes({1, 2}, {1, 4, 5}, {0, 3, 1, 10, 0, 0});
  EXPECT_EQ(least_changes(problem, {0, 0}), (std::vector<Change>{{1, 2}, {0, 1}}));
}

TEST(LeastChanges, UseNoForbiddenEntry) {
  const Problem problem = two_nodes({1, 2}, {1, 1, 1}, {0, kForbidden, 7, kForbidden, 0, 0});
  EXPECT_EQ(least_changes(problem, {0, 0}), (std::vector<Change>{{1, 2}}));
}

TEST(LeastChanges, OfANodeWithOneStrategyThereIsNone) {
  const Problem problem = two_nodes({1}, {1, 2}, {0, 0});
  EXPECT_EQ(least_changes(problem, {0, 0}), (std::vector<Change>{{1, 1}}));
}

TEST(LeastChanges, OfEqualCostsTheFirstNodeAndTheFirstStrategyComeFirst) {
  const Problem problem = two_nodes({1, 1, 1}, {1, 1}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(least_changes(problem, {0, 0}), (std::vector<Change>{{0, 1}, {1, 1}}));
}

// Random problems: for each node the least cost of `evaluate` over its other strategies.
TEST(LeastChanges, CostWhatTheWholeAssignmentCosts) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    constexpr int kNodes = 5, kStrategies = 3;
    Problem problem;
    const auto numbers = [&](int count) {
      std::vector<Cost> list;
      for (int i = 0; i < count; ++i) list.push_back(random() % 100);
      return list;
    };
    for (int n = 0; n < kNodes; ++n)
      problem.add_node({0, 1}, numbers(kStrategies), std::vector<Usage>(kStrategies, 0));
    for (int n = 1; n < kNodes; ++n)
      problem.add_edge(static_cast<int32_t>(random() % n), n, numbers(kStrategies * kStrategies));
    const Assignment assignment(kNodes, 1);
    Wide last = 0;
    for (const Change& change : least_changes(problem, assignment)) {
      Assignment changed = assignment, other = assignment;
      changed[change.node] = change.strategy;
      other[change.node] = 2 - change.strategy;
      const Wide cost = evaluate(problem, changed).cost;
      EXPECT_LE(cost, evaluate(problem, other).cost);
      EXPECT_LE(last, cost);
      last = cost;
    }
  }
}

}  // namespace
}  // namespace tessera::solver
