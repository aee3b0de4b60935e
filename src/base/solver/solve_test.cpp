#include "base/solver/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/solver/testing/random_problems.h"

namespace tessera::solver {
namespace {

SolveOptions with_work(int64_t work, uint64_t seed = 1, int threads = 1) {
  SolveOptions options;
  options.work = work;
  options.seed = seed;
  options.threads = threads;
  return options;
}

/// A random graph too large for a proof, whose limit binds.
Problem hard_problem() {
  Draw draw(17);
  Problem problem;
  constexpr int kNodes = 400, kStrategies = 8;
  for (int i = 0; i < kNodes; ++i) {
    std::vector<Cost> costs(kStrategies);
    std::vector<Usage> usages(kStrategies);
    for (int s = 0; s < kStrategies; ++s) {
      costs[s] = draw(0, 1000);
      usages[s] = 1000 - costs[s] + draw(0, 300);  // what is cheap holds much
    }
    problem.add_node({i, i + draw(1, 30)}, costs, usages);
    for (int e = 0; e < 3 && i > 0; ++e) {
      std::vector<Cost> pairs(kStrategies * kStrategies);
      for (Cost& cost : pairs) cost = draw(0, 600);
      problem.add_edge(static_cast<int32_t>(draw(std::max(0, i - 25), i - 1)), i, pairs);
    }
  }
  problem.set_usage_limit(8000);
  return problem;
}

TEST(Solve, FindsAndProvesTheOptimumOfExhaustiveSearch) {
  int infeasible = 0, proved = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Problem problem = random_problem(seed, 1, 12, seed % 4 == 0 ? 4 : 3);
    const std::optional<Wide> smallest = min_cost_by_trying(problem);
    const Answer answer = solve(problem, with_work(20));
    ASSERT_EQ(text_of(answer.cost), text_of(smallest)) << reproducer(problem, seed);
    if (answer.bound && smallest) {
      ASSERT_LE(*answer.bound, *smallest) << reproducer(problem, seed);
    }
    if (answer.assignment) {
      const Evaluation evaluation = evaluate(problem, *answer.assignment);
      ASSERT_TRUE(evaluation.feasible()) << reproducer(problem, seed);
      ASSERT_EQ(to_text(evaluation.cost), text_of(answer.cost));
    }
    ASSERT_EQ(answer.proof == Proof::kInfeasible, !smallest) << reproducer(problem, seed);
    proved += answer.proof != Proof::kNone;
    infeasible += !smallest;
  }
  EXPECT_GT(infeasible, 50);
  EXPECT_LT(infeasible, 1000);
  EXPECT_EQ(proved, 2000);
}

TEST(Solve, TheSameSeedAndWorkGiveTheSameAnswerOnAnyNumberOfThreads) {
  const Problem problem = hard_problem();
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const Answer one = solve(problem, with_work(60, seed, 1));
    ASSERT_EQ(one.proof, Proof::kNone);  // the work ended the search
    for (const int threads : {2, 3}) {
      const Answer several = solve(problem, with_work(60, seed, threads));
      EXPECT_EQ(several.assignment, one.assignment);
      EXPECT_EQ(text_of(several.bound), text_of(one.bound));
    }
  }
}

TEST(Solve, MoreWorkIsNeverWorseAndTheTraceSaysHowItWent) {
  const Problem problem = hard_problem();
  const Answer little = solve(problem, with_work(40)), much = solve(problem, with_work(150));
  ASSERT_TRUE(little.cost && much.cost);
  EXPECT_LE(*much.cost, *little.cost);
  EXPECT_LE(*much.bound, *much.cost);
  for (size_t i = 1; i < much.trace.size(); ++i) {
    const Improvement &before = much.trace[i - 1], &after = much.trace[i];
    EXPECT_TRUE(!before.cost || *after.cost <= *before.cost);
    EXPECT_TRUE(!before.bound || *after.bound >= *before.bound);
  }
  EXPECT_EQ(text_of(much.trace.back().cost), text_of(much.cost));
}

/// The contest's instances, if available: beside the project, or in the folder TESSERA_IOPDDL.
std::filesystem::path instance(const std::string& letter) {
  const std::filesystem::path root = TESSERA_SOURCE_DIR;
  const char* const named = std::getenv("TESSERA_IOPDDL");
  const std::string file = "asplos-2025-iopddl-" + letter + ".json.gz";
  if (named) return std::filesystem::path(named) / file;
  for (const char* folder : {"../shared/data/iopddl", "../../shared/data/iopddl"})
    if (std::filesystem::exists(root / folder / file)) return root / folder / file;
  return file;
}

TEST(Solve, InstancesOfTheContestWithKnownOptimaAreProved) {
  // Others proved B; exact reductions and a solver of integer programs proved A and G.
  for (const auto& [letter, optimum] :
       {std::pair("A", "6548553650"), {"B", "532843"}, {"G", "217039"}}) {
    if (!std::filesystem::exists(instance(letter)))
      GTEST_SKIP() << "the contest's instances are not here";
    const Answer answer = solve(read_problem(instance(letter)), with_work(2000));
    EXPECT_EQ(text_of(answer.cost), optimum) << letter;
    EXPECT_EQ(answer.proof, Proof::kOptimal) << letter;
  }
}

TEST(Solve, AKnownAssignmentIsNeverLost) {
  const Problem problem = random_problem(11, 40, 40, 4);
  const Answer first = solve(problem, with_work(20));
  ASSERT_TRUE(first.assignment.has_value());
  SolveOptions options = with_work(1);
  options.start = first.assignment;
  EXPECT_LE(*solve(problem, options).cost, *first.cost);
}

TEST(Solve, StopsWhenAskedTo) {
  SolveOptions options;
  options.cancel = [] { return true; };
  const Answer answer = solve(random_problem(3, 60, 60, 5), options);
  EXPECT_NE(answer.proof, Proof::kInfeasible);
  EXPECT_FALSE(answer.assignment.has_value() && !answer.cost.has_value());
}

TEST(Solve, AProblemWithoutNodesCostsNothing) {
  const Answer answer = solve(Problem(), with_work(1));
  EXPECT_EQ(text_of(answer.cost), "0");
  EXPECT_EQ(answer.proof, Proof::kOptimal);
}

TEST(Solve, CostsTooLargeForExactSumsAreRefused) {
  Problem problem;
  for (int i = 0; i < 20; ++i)
    problem.add_node({}, std::vector<Cost>{900'000'000'000'000'000}, std::vector<Usage>{0});
  EXPECT_THAT([&] { solve(problem); }, testing::ThrowsMessage<UserError>(
                                           testing::HasSubstr("the costs of the problem sum to")));
}

}  // namespace
}  // namespace tessera::solver
