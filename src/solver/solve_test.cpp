#include "solver/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "solver/random_problems_testing.h"

namespace tessera::solver {
namespace {

SolveOptions with_work(int64_t work, uint64_t seed = 1, int threads = 1) {
  SolveOptions options;
  options.work = work;
  options.seed = seed;
  options.threads = threads;
  return options;
}

TEST(Solve, FindsAndProvesWhatTryingEverythingFinds) {
  int infeasible = 0, proved = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Problem problem = random_problem(seed, 1, 12, seed % 4 == 0 ? 4 : 3);
    const std::optional<Wide> least = least_cost_by_trying(problem);
    const Answer answer = solve(problem, with_work(20));
    ASSERT_EQ(text_of(answer.cost), text_of(least)) << reproducer(problem, seed);
    if (answer.bound && least) {
      ASSERT_LE(*answer.bound, *least) << reproducer(problem, seed);
    }
    if (answer.assignment) {
      const Evaluation evaluation = evaluate(problem, *answer.assignment);
      ASSERT_TRUE(evaluation.feasible()) << reproducer(problem, seed);
      ASSERT_EQ(to_text(evaluation.cost), text_of(answer.cost));
    }
    ASSERT_EQ(answer.proof == Proof::kInfeasible, !least) << reproducer(problem, seed);
    proved += answer.proof != Proof::kNone;
    infeasible += !least;
  }
  EXPECT_GT(infeasible, 50);
  EXPECT_LT(infeasible, 1000);
  EXPECT_EQ(proved, 2000);
}

TEST(Solve, TheSameSeedAndWorkGiveTheSameAnswerOnAnyNumberOfThreads) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Problem problem = random_problem(seed * 7, 120, 160, 6);
    const Answer one = solve(problem, with_work(30, seed, 1));
    for (const int threads : {2, 3}) {
      const Answer several = solve(problem, with_work(30, seed, threads));
      EXPECT_EQ(several.assignment, one.assignment);
      EXPECT_EQ(text_of(several.bound), text_of(one.bound));
    }
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
  for (int i = 0; i < 20; ++i) problem.add_node({}, std::vector<Cost>{900'000'000'000'000'000}, std::vector<Usage>{0});
  EXPECT_THAT([&] { solve(problem); }, testing::ThrowsMessage<UserError>(testing::HasSubstr("the costs of the problem sum to")));
}

}  // namespace
}  // namespace tessera::solver
