#include "base/solver/internal/reduce.h"

#include <gtest/gtest.h>

#include "base/solver/testing/random_problems.h"

namespace tessera::solver {
namespace {

constexpr int kProblems = 400;

/// The rest of a network as a problem of its own, with usages above the least. Moments are
/// consecutive.
Problem rest_of(const Network& network, std::vector<int32_t>& node_of) {
  // Holdings of several pieces become further nodes that are tied to theirs; different limits
  // become nodes that hold the difference.
  Problem problem;
  std::vector<int32_t> number(network.nodes.size(), -1);
  const Usage largest =
      network.limits.empty() ? 0 : *std::max_element(network.limits.begin(), network.limits.end());
  for (size_t i = 0; i < network.nodes.size(); ++i) {
    const Network::Node& node = network.nodes[i];
    if (!node.is_alive) continue;
    number[i] = problem.add_node({}, node.costs, std::vector<Usage>(node.costs.size(), 0));
    node_of.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < network.nodes.size(); ++i) {
    const Network::Node& node = network.nodes[i];
    for (const Network::Holding& holding : node.holdings) {
      const size_t count = node.costs.size();
      const int32_t piece = problem.add_node({holding.begin, holding.end},
                                             std::vector<Cost>(count, 0), holding.usages);
      std::vector<Cost> same(count * count, kForbidden);
      for (size_t s = 0; s < count; ++s) same[s * count + s] = 0;
      problem.add_edge(number[i], piece, same);
    }
  }
  Usage taken = 0;
  for (size_t m = 0; m < network.limits.size(); ++m) {
    taken += network.taken[m];
    problem.add_node({static_cast<Moment>(m), static_cast<Moment>(m + 1)}, std::vector<Cost>{0},
                     std::vector<Usage>{largest - network.limits[m] + taken});
  }
  for (const Network::Edge& edge : network.edges) {
    if (!edge.is_alive) continue;
    std::vector<Cost> costs = edge.costs->costs;
    for (Cost& cost : costs) cost = std::min(cost, kForbidden);
    problem.add_edge(number[edge.a], number[edge.b], costs);
  }
  if (!network.limits.empty()) problem.set_usage_limit(largest);
  return problem;
}

/// Expects that the least cost of the rest is that of the whole, and that undoing the steps gives
/// an assignment of that cost.
void expect_equivalent(const Problem& problem, const Network& network, uint64_t seed) {
  const std::optional<Wide> smallest = min_cost_by_trying(problem);
  if (network.is_infeasible) {
    EXPECT_EQ(text_of(smallest), "none") << reproducer(problem, seed);
    return;
  }
  for (const Usage limit : network.limits)
    if (limit < 0) return;  // seen when moments are compressed next
  std::vector<int32_t> node_of;
  const Problem rest = rest_of(network, node_of);
  std::optional<Wide> of_rest = min_cost_by_trying(rest);
  if (of_rest) *of_rest += network.constant;
  EXPECT_EQ(text_of(of_rest), text_of(smallest)) << reproducer(problem, seed);
}

using StepOnce = bool (*)(Network&, int32_t, std::vector<int32_t>&);

/// Applies one kind of step wherever possible, and returns the number of steps.
int take_everywhere(Network& network, StepOnce step) {
  int taken = 0;
  std::vector<int32_t> touched;
  for (int32_t i = 0; i < static_cast<int32_t>(network.nodes.size()) && !network.is_infeasible; ++i)
    if (network.nodes[i].is_alive && step(network, i, touched)) ++taken;
  return taken;
}

void expect_step_keeps_the_min_cost(StepOnce step) {
  int taken = 0;
  for (uint64_t seed = 1; seed <= kProblems; ++seed) {
    const Problem problem = random_problem(seed, 2, 6, 3);
    Network network(problem);
    taken += take_everywhere(network, step);
    expect_equivalent(problem, network, seed);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(taken, 20);
}

TEST(SolverReduce, ANetworkIsTheProblemItWasMadeOf) {
  expect_step_keeps_the_min_cost([](Network&, int32_t, std::vector<int32_t>&) { return true; });
}
TEST(SolverReduce, DroppingUnsupportedStrategiesKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(drop_unsupported);
}
TEST(SolverReduce, DroppingDominatedStrategiesKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(drop_dominated);
}
TEST(SolverReduce, SimplifyingEdgesKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(simplify_edges);
}
TEST(SolverReduce, SettlingSingleStrategiesKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(settle_single);
}
TEST(SolverReduce, EliminatingNodesKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(eliminate);
}
TEST(SolverReduce, AbsorbingDeterminedNeighboursKeepsTheLeastCost) {
  expect_step_keeps_the_min_cost(absorb_determined);
}

TEST(SolverReduce, CompressingMomentsKeepsTheLeastCost) {
  for (uint64_t seed = 1; seed <= kProblems; ++seed) {
    const Problem problem = random_problem(seed, 2, 7, 3);
    Network network(problem);
    compress_moments(network);
    expect_equivalent(problem, network, seed);
  }
}

TEST(SolverReduce, AllTogetherKeepTheLeastCost) {
  for (uint64_t seed = 1; seed <= kProblems; ++seed) {
    const Problem problem = random_problem(seed, 2, 9, 3);
    Network network(problem);
    reduce(network);
    expect_equivalent(problem, network, seed);
    if (HasFailure()) return;
  }
}

TEST(SolverReduce, ATreeWithoutALimitIsSolvedByReductionsAlone) {
  Draw draw(5);
  Problem problem;
  for (int i = 0; i < 200; ++i) {
    std::vector<Cost> costs(4), pairs(16);
    for (Cost& cost : costs) cost = draw(0, 99);
    for (Cost& cost : pairs) cost = draw(0, 99);
    problem.add_node({0, 1}, costs, std::vector<Usage>(4, 1));
    if (i > 0) problem.add_edge(static_cast<int32_t>(draw(0, i - 1)), i, pairs);
  }
  Network network(problem);
  reduce(network);
  for (const Network::Node& node : network.nodes) EXPECT_FALSE(node.is_alive);
  const Assignment assignment = network.expand(Assignment(200, kNoStrategy), 200);
  EXPECT_EQ(to_text(evaluate(problem, assignment).cost), to_text(network.constant));
}

TEST(SolverReduce, MomentsWhereEverythingFitsAreDropped) {
  Problem problem;
  problem.add_node({0, 5}, std::vector<Cost>{1, 0}, std::vector<Usage>{3, 6});
  problem.add_node({5, 9}, std::vector<Cost>{1, 0}, std::vector<Usage>{3, 6});
  problem.add_node({5, 9}, std::vector<Cost>{1, 0}, std::vector<Usage>{2, 5});
  problem.set_usage_limit(10);
  Network network(problem);
  compress_moments(network);
  // Until moment 5 one node is live, which uses at most 6; from 5 on the usage could be 11. Usages
  // above the least may sum to 10 - 3 - 2.
  EXPECT_EQ(network.first_time, std::vector<Moment>{5});
  EXPECT_EQ(network.limits, std::vector<Usage>{5});
}

TEST(SolverReduce, AMomentWhoseNodesAllLiveAtAnotherIsImplied) {
  Problem problem;
  for (int i = 0; i < 4; ++i)
    problem.add_node({i, 4 + i}, std::vector<Cost>{1, 0}, std::vector<Usage>{0, 5});
  problem.set_usage_limit(9);
  Network network(problem);
  compress_moments(network);
  EXPECT_EQ(network.first_time, std::vector<Moment>{3});  // all four live there
}

}  // namespace
}  // namespace tessera::solver
