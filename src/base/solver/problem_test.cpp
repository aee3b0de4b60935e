#include "base/solver/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::solver {
namespace {

TEST(Evaluate, SumsCostsOfNodesAndEdgesAndFindsThePeak) {
  Problem problem;
  problem.add_node({0, 4}, std::vector<Cost>{1, 2}, std::vector<Usage>{10, 5});
  problem.add_node({2, 6}, std::vector<Cost>{3, 4, 5}, std::vector<Usage>{7, 1, 0});
  problem.add_edge(0, 1, std::vector<Cost>{0, 10, 20, 30, 40, 50});
  problem.set_usage_limit(11);
  // Strategies 0 and 1 cost 1 + 4 + 10; from moment 2 on both are live: 10 + 1.
  const Evaluation evaluation = evaluate(problem, {0, 1});
  EXPECT_EQ(to_text(evaluation.cost), "15");
  EXPECT_EQ(to_text(evaluation.peak), "11");
  EXPECT_EQ(evaluation.peak_moment, 2);
  EXPECT_TRUE(evaluation.feasible());
  EXPECT_FALSE(evaluate(problem, {0, 0}).feasible());  // 17 at moment 2
}

TEST(Evaluate, MemoryOfWhatEndsIsFreeForWhatBeginsAtThatMoment) {
  Problem problem;
  problem.add_node({0, 2}, std::vector<Cost>{0}, std::vector<Usage>{8});
  problem.add_node({2, 3}, std::vector<Cost>{0}, std::vector<Usage>{9});
  EXPECT_EQ(to_text(evaluate(problem, {0, 0}).peak), "9");
}

TEST(Evaluate, AnEmptyIntervalHoldsNothing) {
  Problem problem;
  problem.add_node({5, 5}, std::vector<Cost>{0}, std::vector<Usage>{8});
  problem.set_usage_limit(0);
  EXPECT_TRUE(evaluate(problem, {0}).feasible());
}

TEST(Evaluate, SumsOfForbiddenEntriesNeedMoreThan64Bits) {
  Problem problem;
  for (int i = 0; i < 30; ++i)
    problem.add_node({}, std::vector<Cost>{kForbidden}, std::vector<Usage>{0});
  const Evaluation evaluation = evaluate(problem, Assignment(30, 0));
  EXPECT_EQ(to_text(evaluation.cost), "30000000000000000000");
  EXPECT_TRUE(evaluation.forbidden);
}

TEST(Evaluate, AnEdgeMayHoldMemoryOfItsOwn) {
  Problem problem;
  problem.add_node({0, 3}, std::vector<Cost>{0, 0}, std::vector<Usage>{4, 4});
  problem.add_node({0, 3}, std::vector<Cost>{0}, std::vector<Usage>{1});
  problem.add_edge(0, 1, std::vector<Cost>{0, 0}, {1, 2}, std::vector<Usage>{0, 6});
  EXPECT_EQ(to_text(evaluate(problem, {0, 0}).peak), "5");
  EXPECT_EQ(to_text(evaluate(problem, {1, 0}).peak), "11");
}

TEST(Problem, RefusesWhatDoesNotFit) {
  Problem problem;
  problem.add_node({}, std::vector<Cost>{1, 2}, std::vector<Usage>{0, 0});
  EXPECT_THAT(
      [&] { problem.add_node({}, std::vector<Cost>{1, 2}, std::vector<Usage>{0}); },
      testing::ThrowsMessage<UserError>(testing::HasSubstr("node 1 has 2 costs and 1 usages")));
  EXPECT_THAT([&] { problem.add_edge(0, 3, std::vector<Cost>{1}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("edge 0 names node 3")));
  EXPECT_THAT([&] { problem.add_edge(0, 0, std::vector<Cost>{1, 2, 3}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("4 pairs")));
  EXPECT_THAT([&] { problem.add_node({}, std::vector<Cost>{-1}, std::vector<Usage>{0}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("number 0 is -1")));
}

}  // namespace
}  // namespace tessera::solver
