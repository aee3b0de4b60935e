// Compares the solver with another program, COIN-OR CBC, where that is installed.
#include "base/solver/testing/milp.h"

#include <gtest/gtest.h>

#include "base/solver/solve.h"
#include "base/solver/testing/random_problems.h"
#include "base/testing/test_folder.h"

namespace tessera::solver {
namespace {

TEST(Solve, FindsTheOptimumThatAMilpSolverProves) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed";
  const TestFolder folder;
  int proved = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Problem problem = random_problem(1000 + seed, 30, 60, 3);
    SolveOptions options;
    options.work = 200;
    options.threads = 1;
    const Answer answer = solve(problem, options);
    const std::string smallest = min_cost_by_cbc(problem, folder.path());
    if (smallest.empty()) continue;
    ++proved;
    EXPECT_EQ(text_of(answer.cost), smallest) << reproducer(problem, 1000 + seed);
    EXPECT_TRUE(answer.proof != Proof::kNone) << reproducer(problem, 1000 + seed);
    if (HasFailure()) break;
  }
  EXPECT_GT(proved, 150);
}

}  // namespace
}  // namespace tessera::solver
