#include <gtest/gtest.h>

#include "planner/pipeline/stage_search.h"

namespace tessera {
namespace {

/// Two stages of dp=2, tp=2.
std::vector<StageSharding> stage_shardings() {
  return {
      {nullptr, std::make_shared<const Mesh>(Shape{2, 2}, std::vector<std::string>{"dp", "tp"})}};
}

PipelineChoice two_stages() {
  PipelineChoice choice;
  choice.stages = {{.first_unit = 0, .end_unit = 1, .first = 0},
                   {.first_unit = 1, .end_unit = 2, .first = 4}};
  return choice;
}

TEST(MeshOfAStage, HasNeighbouringRanks) {
  EXPECT_EQ(mesh_of(two_stages(), 0, stage_shardings())->ranks(), (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(mesh_of(two_stages(), 1, stage_shardings())->ranks(), (std::vector<Rank>{4, 5, 6, 7}));
}

// Each part of the data has all stages on neighbouring ranks: 0 to 3, and 4 to 7.
TEST(MeshOfAStage, HasTheDataOutsideOfTheStages) {
  PipelineChoice choice = two_stages();
  choice.is_dp_outermost = true;
  EXPECT_EQ(mesh_of(choice, 0, stage_shardings())->ranks(), (std::vector<Rank>{0, 1, 4, 5}));
  EXPECT_EQ(mesh_of(choice, 1, stage_shardings())->ranks(), (std::vector<Rank>{2, 3, 6, 7}));
  EXPECT_EQ(mesh_of(choice, 1, stage_shardings())->shape(), (Shape{2, 2}));
  EXPECT_FALSE(choice.has_stages_of(two_stages()));
}

}  // namespace
}  // namespace tessera
