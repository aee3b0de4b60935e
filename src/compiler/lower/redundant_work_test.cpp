#include "compiler/lower/redundant_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/lower/testing/layers.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

Plan plan_on(const std::string& mesh, std::vector<Mark> marks, int64_t micro_batches = 1) {
  return {.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh))),
          .micro_batches = micro_batches,
          .marks = std::move(marks)};
}

std::vector<std::string> waste(const Graph& graph, const Plan& plan) {
  std::vector<std::string> texts;
  for (const ShardingNote& note : redundant_work_notes(placements(graph, plan))) {
    EXPECT_EQ(note.kind, ShardingNote::Kind::kWaste);
    texts.push_back(note.text);
  }
  return texts;
}

/// y = x w, of 2 x 8 x 4 x 4 = 256 flops, and z = u v, of `flops` of them.
Graph two_products(int64_t flops) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 4}}), w = b.input("w", {DType::kF32, {4, 4}});
  const ValueId u = b.input("u", {DType::kF32, {flops / 2, 1}}),
                v = b.input("v", {DType::kF32, {1, 1}});
  graph.add_output("y", b.dot(x, w, "mk,kn->mn", "y"));
  graph.add_output("z", b.dot(u, v, "mk,kn->mn", "z"));
  return graph;
}

const Mark kRowsOfX = shard_tensor("x", "P(\"dp\")");

TEST(Waste, AnAxisThatNoMarkUsesDividesNothing) {
  const Graph graph = testing_layers::square_layers(2, 8, 4);
  EXPECT_THAT(waste(graph, plan_on("dp=2 tp=2", {})),
              ElementsAre("axis 'dp' divides nothing: its 2 ranks do the same work",
                          "axis 'tp' divides nothing: its 2 ranks do the same work"));
  EXPECT_THAT(waste(graph, plan_on("dp=2 tp=3", {kRowsOfX})),
              ElementsAre("axis 'tp' divides nothing: its 3 ranks do the same work"));
}

TEST(Waste, AnAxisOfOneRankAndTheSerialPlanWasteNothing) {
  const Graph graph = testing_layers::square_layers(2, 8, 4);
  EXPECT_THAT(waste(graph, serial_plan()), IsEmpty());
  EXPECT_THAT(waste(graph, plan_on("dp=2 tp=1", {kRowsOfX})), IsEmpty());
}

TEST(Waste, WorkThatAllRanksRepeatIsNamedAboveATwentiethOfAStep) {
  // 256 / (256 + 256) and 256 / (256 + 13) of the flops are divided; 13 / 269 is below 5%.
  EXPECT_THAT(waste(two_products(256), plan_on("dp=2", {kRowsOfX})),
              ElementsAre("the 2 ranks of axis 'dp' all compute 'z' with the same data, 50% of the "
                          "flops of a step"));
  EXPECT_THAT(waste(two_products(12), plan_on("dp=2", {kRowsOfX})), IsEmpty());
}

TEST(Waste, PartialSumsAreNoRepeatedWork) {
  // z takes partial sums of u over dp: each rank multiplies other data.
  PlacedGraph placed = placements(two_products(256), plan_on("dp=2", {kRowsOfX}));
  ASSERT_EQ(redundant_work_notes(placed).size(), 1u);
  placed.sharded.ops.back().linear = {{.axis = 0, .set = 0}};
  EXPECT_THAT(redundant_work_notes(placed), IsEmpty());
}

TEST(Waste, RanksWithoutRowsHaveNoPart) {
  const Graph graph = testing_layers::square_layers(1, 5, 64);
  EXPECT_THAT(waste(graph, plan_on("dp=8", {kRowsOfX})),
              ElementsAre(StartsWith("ranks 5 to 7 have no part of 'y.w0' and ")));
  EXPECT_THAT(waste(graph, plan_on("dp=6", {kRowsOfX})),
              ElementsAre(StartsWith("rank 5 has no part of 'y.w0' and ")));
  EXPECT_THAT(waste(graph, plan_on("dp=5", {kRowsOfX})), IsEmpty());
}

TEST(Waste, ARowForEachMicroBatchLeavesNoneForTheSecondRank) {
  const Graph graph = testing_layers::square_layers(1, 4, 64);
  EXPECT_THAT(waste(graph, plan_on("dp=2", {kRowsOfX}, 4)),
              Contains(AllOf(StartsWith("rank 1 has no part of "),
                             EndsWith("axes mb=4 dp=2 divide a dim of 4 of 'y.w0'"))));
  EXPECT_THAT(waste(graph, plan_on("dp=2", {kRowsOfX}, 2)), Not(Contains(HasSubstr("no part"))));
}

TEST(Waste, StagesAreNamedWhereOnlySomeAreConcerned) {
  const Graph graph = testing_layers::square_layers(2, 8, 32);
  const auto mesh = [](const std::string& axis, Rank first) {
    return std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{axis},
                                        std::vector<Rank>{first, first + 1});
  };
  const std::vector<Mark> stages{stage("y.w0", "first"), stage("{y.w1,loss}", "last")};
  Plan plan{.meshes = {{"first", mesh("dp", 0)}, {"last", mesh("dp", 2)}}, .marks = stages};
  EXPECT_THAT(waste(graph, plan),
              ElementsAre("axis 'dp' divides nothing: its 2 ranks do the same work"));
  plan.meshes.back().mesh = mesh("tp", 2);
  plan.marks.push_back(shard_tensor("w1", "P(None, \"tp\")"));
  EXPECT_THAT(waste(graph, plan),
              Contains("on mesh 'first' axis 'dp' divides nothing: its 2 ranks do the same work"));
  plan.marks = {stage("*", "first"), kRowsOfX};
  EXPECT_THAT(waste(graph, plan), Contains("mesh 'last' has no op: its 2 ranks do nothing"));
}

TEST(Waste, FollowsTheNotesOfPropagation) {
  const PlacedGraph placed =
      placements(testing_layers::square_layers(2, 8, 4), plan_on("dp=2 tp=2", {kRowsOfX}));
  const auto notes = notes_of(placed);
  ASSERT_EQ(notes.size(), placed.sharded.notes.size() + 1);
  EXPECT_EQ(notes.back().kind, ShardingNote::Kind::kWaste);
}

}  // namespace
}  // namespace tessera
