#include "base/solver/internal/dual.h"

#include <gtest/gtest.h>

#include "base/solver/internal/reduce.h"
#include "base/solver/testing/random_problems.h"

namespace tessera::solver {
namespace {

TEST(Dual, TheCertifiedBoundIsNeverAboveTheLeastCost) {
  int bounded = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Problem problem = random_problem(seed, 3, 9, 3);
    const std::optional<Wide> smallest = min_cost_by_trying(problem);
    Network network(problem);
    compress_moments(network);
    // Sweeps require a partner along each edge for every strategy.
    for (bool changed = true; changed && !network.is_infeasible;) {
      std::vector<int32_t> touched;
      for (int32_t i = 0; i < static_cast<int32_t>(network.nodes.size()) && !network.is_infeasible;
           ++i)
        drop_unsupported(network, i, touched);
      changed = !touched.empty();
    }
    if (network.is_infeasible || !smallest) continue;
    const Core core(network);
    Dual dual(core);
    for (int sweep = 0; sweep < 40; ++sweep) {
      dual.sweep();
      dual.move_prices(static_cast<double>(*smallest));
    }
    ASSERT_LE(certified_bound(core, dual.certificate()), *smallest) << reproducer(problem, seed);
    // The sum in doubles equals the exact sum up to the rounding of prices and messages.
    ASSERT_NEAR(static_cast<double>(certified_bound(core, dual.certificate())), dual.best_bound(),
                1.1)
        << reproducer(problem, seed);
    ++bounded;
  }
  EXPECT_GT(bounded, 100);
}

TEST(Dual, OnATreeWithoutALimitTheBoundIsTheLeastCost) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Draw draw(seed);
    Problem problem;
    for (int i = 0; i < 8; ++i) {
      std::vector<Cost> costs(3), pairs(9);
      for (Cost& cost : costs) cost = draw(0, 99);
      for (Cost& cost : pairs) cost = draw(0, 99);
      problem.add_node({}, costs, std::vector<Usage>(3, 0));
      if (i > 0) problem.add_edge(static_cast<int32_t>(draw(0, i - 1)), i, pairs);
    }
    const Core core{Network(problem)};
    Dual dual(core);
    for (int sweep = 0; sweep < 10; ++sweep) dual.sweep();
    EXPECT_EQ(to_text(certified_bound(core, dual.certificate())),
              text_of(min_cost_by_trying(problem)))
        << seed;
  }
}

TEST(Dual, BoundsOfStrategiesAreNeverAboveTheLeastCostWithThem) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Problem problem = random_problem(seed, 3, 6, 3);
    Network network(problem);
    reduce(network);
    if (network.is_infeasible) continue;
    const Core core(network);
    if (core.nodes() == 0) continue;
    Dual dual(core);
    for (int sweep = 0; sweep < 30; ++sweep) {
      dual.sweep();
      dual.move_prices(dual.best_bound() + 50);
    }
    for (int32_t s = 0; s < core.strategies(0); ++s) {
      Network with = network;
      std::vector<char> keep(core.strategies(0), 0);
      keep[s] = 1;
      keep_strategies(with, core.network_node[0], keep);
      reduce(with);
      if (with.is_infeasible) continue;
      const Core rest(with);
      if (rest.nodes() > 0) continue;
      EXPECT_LE(dual.strategy_bounds()[core.first[0] + s], rest.constant + 1e-6)
          << reproducer(problem, seed);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Certificate, BadMessagesGiveAWorseBoundNeverAWrongOne) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem problem = random_problem(seed, 3, 7, 3);
    const std::optional<Wide> smallest = min_cost_by_trying(problem);
    Network network(problem);
    reduce(network);
    if (network.is_infeasible || !smallest) continue;
    const Core core(network);
    Dual::Certificate certificate = Dual(core).certificate();
    Draw draw(seed);
    for (int64_t& price : certificate.prices) price = draw(0, int64_t{1} << 30);
    for (auto* messages : {&certificate.to_a, &certificate.to_b})
      for (std::vector<int64_t>& of_edge : *messages)
        for (int64_t& message : of_edge) message = draw(-100'000, 100'000);
    EXPECT_LE(certified_bound(core, certificate), *smallest) << reproducer(problem, seed);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace tessera::solver
