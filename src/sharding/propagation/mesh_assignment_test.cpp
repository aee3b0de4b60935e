#include "sharding/propagation/mesh_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;

NamedMesh mesh(const std::string& name, std::vector<Rank> ranks) {
  const int64_t size = std::ssize(ranks);
  return {name, std::make_shared<const Mesh>(Shape{size}, std::vector<std::string>{"dp"},
                                             std::move(ranks))};
}

/// Two towers that meet, and the backward of one op of each.
Graph towers() {
  return parse_graph(
      "input x: f32[4]\n"
      "input y: f32[4]\n"
      "left = relu(x): f32[4]\n"
      "right = relu(y): f32[4]\n"
      "joined = add(left, right): f32[4]\n"
      "top = exp(joined): f32[4]\n"
      "top.grad = mul(top, joined): f32[4] @backward <- gradient top\n"
      "left.grad = mul(top.grad, left): f32[4] @backward <- gradient left\n"
      "right.grad = mul(top.grad, right): f32[4] @backward <- gradient right\n"
      "norm = square(left.grad): f32[4] @optimizer <- optimizer\n");
}

/// The names of the meshes of the ops, in program order.
std::vector<std::string> meshes_of_ops(const Meshes& meshes, const std::vector<Mark>& marks) {
  std::vector<std::string> names;
  for (int index : assign_meshes(towers(), meshes, marks).ops) names.push_back(meshes[index].name);
  return names;
}

Mark tensor_on(const std::string& tensor, const std::string& mesh) {
  return {Mark::Kind::kTensor, tensor, "", "plan.json marks[7]", mesh};
}

const Meshes kNested = {mesh("both", {0, 1}), mesh("one", {0})};

TEST(MeshAssignment, WhereTowersMeetTheMeshWithTheRanksOfTheOthersWins) {
  const std::vector<std::string> expected{"both", "one",  "both", "both",
                                          "both", "both", "one",  "one"};
  EXPECT_EQ(meshes_of_ops(kNested, {stage("left", "both"), stage("right", "one")}), expected);
  // norm belongs to no op of the forward: it follows the op before it, right.grad
  EXPECT_THAT(meshes_of_ops(kNested, {stage("right", "both"), stage("left", "one")}),
              ElementsAre("one", "both", "both", "both", "both", "one", "both", "both"));
}

TEST(MeshAssignment, WhereNoMeshIncludesTheOthersTheNearestOpBeforeDecides) {
  const Meshes apart = {mesh("a", {0, 1}), mesh("b", {1, 2})};
  EXPECT_THAT(meshes_of_ops(apart, {stage("left", "a"), stage("right", "b")}),
              ElementsAre("a", "b", "b", "b", "b", "a", "b", "b"));
  const Meshes same_ranks = {mesh("a", {0, 1}), mesh("b", {1, 0})};
  EXPECT_EQ(meshes_of_ops(same_ranks, {stage("left", "a"), stage("right", "b")})[2], "b");
}

const Meshes kTwo = {mesh("first", {0}), mesh("last", {1})};

TEST(MeshAssignment, AViewHasWhatIsMarkedAndWhatIsDerivedFromIt) {
  Meshes meshes = {mesh("stage", {0, 1}), mesh("view", {1, 0})};
  meshes[1].view_of = "stage";
  EXPECT_EQ(stage_of(meshes, 1), 0);
  EXPECT_EQ(stage_count(meshes), 1);
  EXPECT_THAT(meshes_of_ops(meshes, {stage("left", "stage"), stage("right", "view")}),
              ElementsAre("stage", "view", "stage", "stage", "stage", "stage", "view", "stage"));
  meshes[1].view_of.clear();  // a second stage is where the nearest ops are
  EXPECT_THAT(meshes_of_ops(meshes, {stage("left", "stage"), stage("right", "view")}),
              ElementsAre("stage", "view", "view", "view", "view", "stage", "view", "view"));
}

TEST(MeshAssignment, AMarkOnABackwardOrAnOptimizerOpPlacesIt) {
  EXPECT_THAT(meshes_of_ops(kTwo, {stage("{left,right,joined,top}", "first"),
                                   stage("left.grad", "last"), stage("norm", "last")}),
              ElementsAre("first", "first", "first", "first", "first", "last", "first", "last"));
}

// left* matches left.grad too, which follows left all the same.
TEST(MeshAssignment, APatternThatNamesForwardOpsSaysNothingOfTheBackward) {
  EXPECT_THAT(meshes_of_ops(kTwo, {stage("{right,joined,top}", "first"), stage("left*", "first"),
                                   stage("*right*", "last")}),
              ElementsAre("first", "last", "first", "first", "first", "first", "last", "last"));
}

TEST(MeshAssignment, AMarkOnAnIntermediateTensorPlacesItsOpAndItsUsers) {
  EXPECT_THAT(meshes_of_ops(kTwo, {stage("{left,right}", "first"), tensor_on("joined", "last")}),
              ElementsAre("first", "first", "last", "last", "last", "first", "first", "first"));
  EXPECT_THAT(meshes_of_ops(kTwo, {stage("{left,right}", "first"), tensor_on("joined", "last"),
                                   stage("top", "first")}),
              ElementsAre("first", "first", "last", "first", "first", "first", "first", "first"));
}

TEST(MeshAssignment, ATensorIsMadeWhereItIsStored) {
  try {
    assign_meshes(towers(), kTwo, {stage("joined", "first"), tensor_on("joined", "last")});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    EXPECT_STREQ(
        error.what(),
        "mark 'joined' (plan.json marks[7]) puts 'joined' on mesh 'last', and another mark "
        "puts the op that makes it on 'first'\n"
        "  why: a tensor is made on the mesh where it is stored\n"
        "  fix: remove one of the two marks");
  }
}

}  // namespace
}  // namespace tessera
