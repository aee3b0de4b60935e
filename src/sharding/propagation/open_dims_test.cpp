// Dims of marked tensors that propagation decides, chunks of variables, and what marks say of
// results and modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/module_marks.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// y = tanh(x w), and z = y v.
Graph two_products() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 6}));
  const ValueId w = b.variable("w", f32({6, 12}), Initializer::normal(0, 1));
  const ValueId v = b.variable("v", f32({12, 4}), Initializer::normal(0, 1));
  const auto scope = b.scope("net");
  const ValueId y = b.unary("tanh", b.dot(x, w, "mk,kn->mn", "dot"), "y");
  graph.add_output("z", b.dot(y, v, "mk,kn->mn", "z"));
  return graph;
}

std::string placed(const Graph& graph, const std::string& value, const std::vector<Mark>& marks,
                   std::string_view mesh = "dp=2 tp=2") {
  const ShardedGraph sharded = propagate(graph, mesh_of(mesh), marks);
  return to_text(sharded.at(*graph.find_value(value)));
}

std::string refusal(const Graph& graph, const Mark& mark) {
  return error_testing::message_of(ExitCode::kBadConfig,
                                   [&] { propagate(graph, mesh_of("dp=2 tp=2"), {mark}); });
}

// ---- open dims ----

TEST(OpenDims, GetTheAxesThatPropagationFinds) {
  const Graph graph = two_products();
  const std::vector<Mark> by_rows = {shard_tensor("x", "P(\"dp\")")};
  const auto with = [&](const std::string& placement) {
    std::vector<Mark> marks = by_rows;
    marks.push_back(shard_tensor("net.y", placement));
    return marks;
  };
  EXPECT_EQ(placed(graph, "net.y", with("P(None, \"tp\")")), "[*, @tp]");
  EXPECT_EQ(placed(graph, "net.y", with("P(?, \"tp\")")), "[@dp, @tp]");
}

TEST(OpenDims, OfWhichNothingIsKnownStayWhole) {
  EXPECT_EQ(placed(two_products(), "net.y", {shard_tensor("net.y", "P(?, \"tp\")")}), "[*, @tp]");
}

TEST(OpenDims, KeepTheirFirstAxesAndMayGetMore) {
  const Graph graph = two_products();
  const auto with = [&](const std::string& placement) {
    return std::vector<Mark>{shard_tensor("x", "P((\"dp\", \"tp\"))"),
                             shard_tensor("net.dot", placement)};
  };
  EXPECT_EQ(placed(graph, "net.dot", with("P(\"dp\")")), "[@dp, *]");
  EXPECT_EQ(placed(graph, "net.dot", with("P((\"dp\", ?))")), "[@dp@tp, *]");
}

TEST(OpenDims, AreNotForTheInputsOfAnOp) {
  EXPECT_THAT(refusal(two_products(), shard_op("net.dot", "[P(?), P()]")),
              HasSubstr("an open dim, '?', can only be in the mark of a tensor"));
}

// ---- chunks by marks ----

TEST(ChunkMarks, DivideEachOfTheEqualPiecesOfADim) {
  const Graph graph = two_products();
  const std::vector<Mark> marks = {shard_tensor("w", "P(None, 3*\"tp\")")};
  EXPECT_EQ(placed(graph, "w", marks), "[*, @tp/3]");
  EXPECT_EQ(placed(graph, "net.y", marks), "[*, @tp/3]");
  // v is not marked: it is one piece on each rank.
  EXPECT_EQ(placed(graph, "v", marks), "[@tp, *]");
}

TEST(ChunkMarks, AreTheSameAsThePrintedPlacement) {
  const Graph graph = two_products();
  EXPECT_EQ(placed(graph, "net.y", {shard_tensor("w", "[*, @tp/3]")}), "[*, @tp/3]");
}

TEST(ChunkMarks, NeedEqualPiecesAndLeaveRowsOfInputsAlone) {
  const Graph graph = two_products();
  EXPECT_THAT(refusal(graph, shard_tensor("w", "P(None, 5*\"tp\")")),
              HasSubstr("dim 1 cannot be divided in 5 chunks\n  why: chunks are equal, and the dim "
                        "has 12 elements"));
  EXPECT_THAT(refusal(graph, shard_tensor("x", "P(2*\"dp\")")),
              HasSubstr("divides the rows of 'x' in chunks"));
  EXPECT_THAT(refusal(graph, shard_tensor("w", "P(3*None)")),
              HasSubstr("chunks are divided by an axis"));
}

// ---- means ----

TEST(Marks, RefuseAMeanOfPartsAndSayWhatToWrite) {
  const std::string message = refusal(two_products(), shard_tensor("net.z", "dp: Partial(mean)"));
  EXPECT_THAT(message, HasSubstr("a mean of the parts is not the mean of the whole"));
  EXPECT_THAT(message, HasSubstr("fix: write it as Partial(sum)"));
}

// ---- results of ops, modules ----

TEST(OpMarks, PlaceTheResultsAfterAnArrow) {
  const Graph graph = two_products();
  EXPECT_EQ(placed(graph, "net.dot", {shard_op("net.dot", "-> [P(\"dp\", \"tp\")]")}),
            "[@dp, @tp]");
  const std::vector<Mark> both = {shard_op("net.dot", "[P(\"dp\"), P()] -> [P(None, \"tp\")]")};
  EXPECT_EQ(placed(graph, "net.dot", both), "[*, @tp]");
  EXPECT_EQ(placed(graph, "x", both), "[@dp, *]");
  EXPECT_THAT(refusal(graph, shard_op("net.dot", "-> [P(), P()]")),
              HasSubstr("is not a list of 1 placements\n  why: the values are 'net.dot'"));
}

TEST(ModuleMarks, PlaceWhatEntersAndWhatLeaves) {
  const Graph graph = two_products();
  const std::vector<Module> modules = modules_of(graph, "n*");
  ASSERT_EQ(modules.size(), 1u);
  EXPECT_EQ(modules[0].name, "net");
  EXPECT_THAT(modules[0].inputs, ElementsAre(*graph.find_value("x")));
  EXPECT_THAT(modules[0].outputs, ElementsAre(*graph.find_value("net.z")));
  const std::vector<Mark> marks = {shard_module("net", "[P(\"dp\")] -> [P(\"dp\", \"tp\")]")};
  EXPECT_EQ(placed(graph, "x", marks), "[@dp, *]");
  EXPECT_EQ(placed(graph, "net.z", marks), "[@dp, @tp]");
}

TEST(ModuleMarks, ThatNameNoModuleAreRefusedWithTheNearestName) {
  EXPECT_THAT(refusal(two_products(), shard_module("nett", "[P()]")),
              HasSubstr("names no module of this model"));
  EXPECT_THAT(refusal(two_products(), shard_module("nett", "[P()]")),
              HasSubstr("did you mean 'net'?"));
}

}  // namespace
}  // namespace tessera
