// Plans of an earlier version are read as they were written.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files/document.h"
#include "base/files/file.h"
#include "compiler/plan/plan.h"

namespace tessera {
namespace {

std::filesystem::path stored_plan(const std::string& name) {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / "tests" / "data" / "plans_of_2026_11_27" /
         name;
}

/// The plan under the names of its keys today.
Plan rewritten_plan(const Plan& plan) {
  return parse_plan(to_document(plan, Graph()), "plan.json");
}

std::string stored_text(const Plan& plan) {
  return to_json(to_document(plan, Graph()), 2);
}

class StoredPlans : public testing::TestWithParam<const char*> {};

TEST_P(StoredPlans, OfAnEarlierVersionIsTheSameAfterItIsWritten) {
  Plan plan = read_plan(stored_plan(GetParam()));
  plan.fingerprint.reset();  // it is that of the graph to which a plan is written
  Plan again = rewritten_plan(plan);
  again.fingerprint.reset();
  EXPECT_EQ(again.shardings, plan.shardings);
  EXPECT_EQ(stored_text(again), stored_text(plan));
}

INSTANTIATE_TEST_SUITE_P(Files, StoredPlans,
                         testing::Values("gpt.dp2-tp2.json", "two_tower.pp3.json",
                                         "mlp.resolved.json", "mlp.planned.json"));

TEST(StoredPlanFiles, OfMarksHaveTheMeshesAndMarksOfTheirText) {
  const Plan plan = read_plan(stored_plan("gpt.dp2-tp2.json"));
  ASSERT_EQ(plan.meshes.size(), 1U);
  EXPECT_EQ(to_text(*plan.meshes.front().mesh), "dp=2 tp=2");
  EXPECT_FALSE(plan.marks.empty());
  EXPECT_FALSE(plan.shardings.has_value());
}

TEST(StoredPlanFiles, OfPlacementsHaveTheSectionOfTheTrainingStep) {
  const Plan plan = read_plan(stored_plan("mlp.resolved.json"));
  ASSERT_TRUE(plan.shardings.has_value());
  EXPECT_NE(plan.shardings->find(kTrainSection), nullptr);
}

}  // namespace
}  // namespace tessera
