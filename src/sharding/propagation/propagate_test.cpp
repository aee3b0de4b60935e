#include "sharding/propagation/propagate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

std::string propagate_placed(const Graph& graph, const MeshPtr& mesh,
                             const std::vector<Mark>& marks) {
  return print_placements(graph, propagate(graph, mesh, marks));
}

Graph one_matmul() {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", f32({8, 16}));
  const ValueId b = builder.input("b", f32({16, 4}));
  builder.dot(a, b, "mk,kn->mn", "c");
  return graph;
}

TEST(Propagation, SplitOfTheContractedDimReachesTheOtherOperandAndLeavesAPartialSum) {
  const Graph graph = one_matmul();
  const MeshPtr mesh = mesh_of("tp=2");
  const ShardedGraph sharded = propagate(graph, mesh, {shard_tensor("a", "P(None,\"tp\")")});
  EXPECT_EQ(print_placements(graph, sharded),
            "a f32[8, 16@tp]\n"
            "b f32[16@tp, 4]\n"
            "c f32[8, 4]\n");  // the tensor side: it is summed where it is made
  EXPECT_EQ(to_text(output_attr(view(graph, graph.op({0})), sharded.rules[0], sharded.ops[0], 0)),
            "[*, *] {partial sum: tp}");
}

TEST(Propagation, SplitOfTheResultGoesBackToTheOperand) {
  EXPECT_EQ(propagate_placed(one_matmul(), mesh_of("dp=2"), {shard_tensor("c", "P(\"dp\")")}),
            "a f32[8@dp, 16]\n"
            "b f32[16, 4]\n"
            "c f32[8@dp, 4]\n");
}

// x w, and its tanh. The mark on rows and columns applies to each micro-batch.
TEST(Propagation, MarksOnIntermediateTensorsKeepTheMicroBatchAxis) {
  const Meshes timed = {{"all", mesh_of("mb=2 tp=2")}};
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", f32({8, 16}));
  const ValueId c = builder.dot(a, builder.variable("b", f32({16, 4}), Initializer::constant(0)),
                                "mk,kn->mn", "c");
  builder.unary("tanh", c, "d");
  EXPECT_EQ(print_placements(graph, propagate(graph, timed, {shard_tensor("d", "P(\"tp\")")})),
            "a f32[8@mb@tp, 16]\n"
            "b f32[16, 4]\n"
            "c f32[8@mb@tp, 4]\n"
            "d f32[8@mb@tp, 4]\n");
  EXPECT_EQ(
      print_placements(graph, propagate(graph, timed, {shard_tensor("c", "P(None, \"tp\")")})),
      "a f32[8@mb, 16]\n"
      "b f32[16, 4@tp]\n"
      "c f32[8@mb, 4@tp]\n"
      "d f32[8@mb, 4@tp]\n");
  EXPECT_EQ(
      print_placements(graph, propagate(graph, timed, {shard_op("c", "[P(), P(None, \"tp\")]")})),
      "a f32[8@mb, 16]\n"
      "b f32[16, 4@tp]\n"
      "c f32[8@mb, 4@tp]\n"
      "d f32[8@mb, 4@tp]\n");
}

// x + b, where the rows of x and the features of b have the same axis. What is made of b is read by
// micro-batch: it has to be made by micro-batch.
TEST(Propagation, AValueWhoseOtherDimHasTheAxisOfTheRowsIsMadeByMicroBatch) {
  const Meshes timed = {{"all", mesh_of("mb=2 dp=2")}};
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId b = builder.variable("b", f32({4}), Initializer::constant(0));
  builder.add(x, builder.broadcast(b, {8, 4}, {1}, "b_rows"), "y");
  EXPECT_EQ(print_placements(
                graph, propagate(graph, timed,
                                 {shard_tensor("x", "P(\"dp\")"), shard_tensor("b", "P(\"dp\")")})),
            "x f32[8@mb@dp, 4]\n"
            "b f32[4@dp]\n"
            "b_rows f32[8@mb, 4@dp]\n"
            "y f32[8@mb@dp, 4]\n");
}

// x w, and its tanh on a mesh of its own, to which dp=2 is not propagated.
TEST(Propagation, AMarkOnAResultMayNameMicroBatchesFirst) {
  const auto ranks = [](std::vector<Rank> list) {
    const auto size = static_cast<int64_t>(list.size());
    return std::make_shared<const Mesh>(Shape{size}, std::vector<std::string>{"dp"},
                                        std::move(list));
  };
  const Meshes timed =
      with_micro_batches({{"first", ranks({0, 1})}, {"last", ranks({2, 3, 4, 5})}}, 2);
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", f32({8, 16}));
  const ValueId c = builder.dot(a, builder.variable("b", f32({16, 4}), Initializer::constant(0)),
                                "mk,kn->mn", "c");
  builder.unary("tanh", c, "d");
  const auto propagate_placed = [&](const std::string& placement) {
    return print_placements(
        graph, propagate(graph, timed,
                         {stage("c", "first"), stage("d", "last"), shard_tensor("a", "P(\"dp\")"),
                          shard_tensor("d", placement)}));
  };
  EXPECT_EQ(propagate_placed("P((\"mb\", \"dp\"))"),
            "a f32[8@mb@dp, 16]\n"
            "b f32[16, 4]\n"
            "c f32[8@mb@dp, 4]\n"
            "d f32[8@mb@dp, 4]\n");
  EXPECT_EQ(propagate_placed("P(\"mb\", \"dp\")"),
            "a f32[8@mb@dp, 16]\n"
            "b f32[16, 4]\n"
            "c f32[8@mb@dp, 4]\n"
            "d f32[8@mb, 4@dp]\n");
  EXPECT_THROW(propagate_placed("P((\"dp\", \"mb\"))"), UserError);
}

/// Two layers as Megatron divides them: only the two weights are marked.
Graph mlp() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 16}));
  const ValueId up = b.variable("up", f32({16, 32}), Initializer::constant(0));
  const ValueId bias = b.variable("bias", f32({32}), Initializer::constant(0));
  const ValueId down = b.variable("down", f32({32, 16}), Initializer::constant(0));
  const ValueId h = b.dot(x, up, "mk,kn->mn", "h");
  const ValueId s = b.add(h, b.broadcast(bias, {8, 32}, {1}, "bias_rows"), "s");
  const ValueId t = b.unary("tanh", s, "t");
  b.dot(t, down, "mk,kn->mn", "y");
  return graph;
}

TEST(Propagation, ColumnThenRowSplitOfTwoLayersNeedsOneSum) {
  const Graph graph = mlp();
  EXPECT_EQ(propagate_placed(graph, mesh_of("tp=4"), {shard_tensor("up", "P(None,\"tp\")")}),
            "x f32[8, 16]\n"
            "up f32[16, 32@tp]\n"
            "bias f32[32@tp]\n"
            "down f32[32@tp, 16]\n"
            "h f32[8, 32@tp]\n"
            "bias_rows f32[8, 32@tp]\n"
            "s f32[8, 32@tp]\n"
            "t f32[8, 32@tp]\n"
            "y f32[8, 16]\n");
}

TEST(Propagation, DoesNotDependOnTheOrderOfMarksAndASecondRunChangesNothing) {
  const Graph graph = mlp();
  const MeshPtr mesh = mesh_of("dp=2 tp=2");
  std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")"), shard_tensor("up", "P(None,\"tp\")"),
                             shard_tensor("down", "P(\"tp\")"), shard_tensor("y", "P(\"dp\")")};
  const std::string expected = propagate_placed(graph, mesh, marks);
  std::sort(marks.begin(), marks.end(),
            [](const Mark& a, const Mark& b) { return a.pattern < b.pattern; });
  do {
    EXPECT_EQ(propagate_placed(graph, mesh, marks), expected);
  } while (std::next_permutation(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return a.pattern < b.pattern;
  }));

  // The resulting placements, given as marks on everything, result again.
  const ShardedGraph first = propagate(graph, mesh, marks);
  std::vector<Mark> all;
  for (int i = 0; i < static_cast<int>(graph.values().size()); ++i) {
    std::string placements;
    for (const Placement& p : first.at(ValueId{i}).placements())
      placements += (placements.empty() ? "" : ", ") + (p.kind == Placement::Kind::kShard
                                                            ? "Shard(" + std::to_string(p.dim) + ")"
                                                            : std::string("Replicate()"));
    all.push_back(shard_tensor(graph.value({i}).name, placements));
  }
  EXPECT_EQ(propagate_placed(graph, mesh, all), expected);
}

TEST(Propagation, AVariableAndItsNextValueShareOnePlacement) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({8}), Initializer::constant(0));
  const ValueId g = b.input("g", f32({8}));
  graph.set_next(w, b.sub(w, g, "w_next"));
  EXPECT_EQ(propagate_placed(graph, mesh_of("dp=2"), {shard_tensor("w", "P(\"dp\")")}),
            "w f32[8@dp]\ng f32[8@dp]\nw_next f32[8@dp]\n");
}

TEST(Propagation, SumsOfPartialSumsAreReducedOnce) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 16}));
  const ValueId w = b.input("w", f32({16, 4}));
  const ValueId v = b.input("v", f32({16, 4}));
  const ValueId p = b.dot(x, w, "mk,kn->mn", "p");
  const ValueId q = b.dot(x, v, "mk,kn->mn", "q");
  b.unary("tanh", b.add(p, q, "s"), "t");
  EXPECT_EQ(propagate_placed(graph, mesh_of("tp=2"), {shard_tensor("x", "P(None,\"tp\")")}),
            "x f32[8, 16@tp]\n"
            "w f32[16@tp, 4]\n"
            "v f32[16@tp, 4]\n"
            "p f32[8, 4] {partial sum: tp}\n"
            "q f32[8, 4] {partial sum: tp}\n"
            "s f32[8, 4]\n"
            "t f32[8, 4]\n");
}

TEST(Propagation, ConflictsNameBothOriginsAndKeepBothMarks) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 8}));
  const ValueId y = b.input("y", f32({8, 8}));
  b.add(x, y, "s");
  const ShardedGraph sharded = propagate(
      graph, mesh_of("tp=2"),
      {shard_tensor("x", "P(\"tp\")", "a.json"), shard_tensor("y", "P(None,\"tp\")", "b.json")});
  EXPECT_EQ(print_placements(graph, sharded), "x f32[8@tp, 8]\ny f32[8, 8@tp]\ns f32[8@tp, 8]\n");
  ASSERT_EQ(sharded.notes.size(), 1u);
  EXPECT_EQ(sharded.notes[0].kind, ShardingNote::Kind::kConflict);
  EXPECT_EQ(sharded.notes[0].text,
            "add 's' cannot follow both: 'y' is divided by mark 'y' (b.json), 'x' by mark 'x' "
            "(a.json); 'y' is resharded for this op");
}

// The weight takes the axis of the batch: data parallelism becomes an all-to-all and an all-reduce.
TEST(Propagation, AReshardThatAMarkForcesOnAnUnmarkedValueIsReported) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 16}));
  const ValueId w = b.input("w", f32({16, 4}));
  const ValueId h = b.unary("tanh", x, "h");
  b.dot(h, w, "mk,kn->mn", "y");
  const ShardedGraph sharded = propagate(
      graph, mesh_of("dp=2"),
      {shard_tensor("x", "P(\"dp\")", "a.json"), shard_tensor("w", "P(\"dp\")", "b.json")});
  ASSERT_EQ(sharded.notes.size(), 1u);
  EXPECT_EQ(sharded.notes[0].kind, ShardingNote::Kind::kReshard);
  EXPECT_EQ(sharded.notes[0].op, "y");
  EXPECT_EQ(sharded.notes[0].text,
            "dot_general 'y' cannot follow both: 'h' is divided since op 'h' divides factor d0, "
            "'w' by mark 'w' (b.json); 'h' is resharded for this op");
}

TEST(Propagation, AValueThatNoOtherOperandOverrulesNeedsNoNote) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 16}));
  const ValueId w = b.input("w", f32({16, 4}));
  b.dot(b.unary("tanh", x, "h"), w, "mk,kn->mn", "y");
  EXPECT_TRUE(propagate(graph, mesh_of("dp=2"), {shard_tensor("x", "P(\"dp\")")}).notes.empty());
}

TEST(Propagation, AFallbackToReplicateIsReported) {
  Graph graph;
  Builder b(graph);
  b.reshape(b.input("x", f32({5, 8})), {8, 5}, "s");
  const ShardedGraph sharded =
      propagate(graph, mesh_of("tp=2"), {shard_tensor("x", "P(None,\"tp\")", "a.json")});
  ASSERT_EQ(sharded.notes.size(), 1u);
  EXPECT_EQ(sharded.notes[0].kind, ShardingNote::Kind::kFallback);
  EXPECT_EQ(
      sharded.notes[0].text,
      "reshape 's' needs dim 1 of 'x' whole, and it is divided by mark 'x' (a.json): it falls "
      "back to Replicate there");
}

TEST(Propagation, AFallbackOfAValueThatAnOpDividesNamesTheOp) {
  Graph graph;
  Builder b(graph);
  b.reshape(b.unary("tanh", b.input("x", f32({5, 8})), "h"), {8, 5}, "s");
  const ShardedGraph sharded =
      propagate(graph, mesh_of("tp=2"), {shard_tensor("x", "P(None,\"tp\")", "a.json")});
  ASSERT_EQ(sharded.notes.size(), 1u);
  EXPECT_EQ(sharded.notes[0].text,
            "reshape 's' needs dim 1 of 'h' whole, and it is divided since op 'h' divides factor "
            "d1: it falls back to Replicate there");
}

/// A gradient in f32 that is sent in 16 bits: it is cast to bf16 and back, and changes `state`.
Graph rounded_gradient() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 4}));
  const ValueId state = b.variable("state", f32({4}), Initializer::constant(0));
  ValueId value = b.reduce_sum(x, {0}, "gradient");
  for (const auto& [name, dtype] :
       {std::pair("sent", DType::kBF16), std::pair("read", DType::kF32)})
    value = graph
                .op(graph.add_op(
                    name, "cast",
                    {{"dtype", std::string(to_text(dtype))}, {std::string(kCastsParts), true}},
                    {value}, {{dtype, {4}}}, Role::kBackward, {}))
                .outputs.front();
  graph.set_next(state, b.add(state, value, "next"));
  return graph;
}

TEST(Propagation, APartialSumIsCastToFewerBytesBeforeItIsReducedAndDivided) {
  EXPECT_EQ(propagate_placed(rounded_gradient(), mesh_of("dp=2"),
                             {shard_tensor("x", "P(\"dp\")"), shard_tensor("state", "P(\"dp\")")}),
            "x f32[8@dp, 4]\n"
            "state f32[4@dp]\n"
            "gradient f32[4] {partial sum: dp}\n"
            "sent bf16[4@dp]\n"
            "read f32[4@dp]\n"
            "next f32[4@dp]\n");
}

// Without a mark the sum over micro-batches is whole before it is cast.
TEST(Propagation, LinearOpsBeforeAMarkedSumOverMicroBatchesRunInEachOfThem) {
  const Graph graph = rounded_gradient();
  const Meshes timed = {{"all", mesh_of("mb=2 dp=2")}};
  std::vector<Mark> marks{shard_tensor("x", "P(\"dp\")"), shard_tensor("state", "P(\"dp\")")};
  EXPECT_EQ(print_placements(graph, propagate(graph, timed, marks)),
            "x f32[8@mb@dp, 4]\n"
            "state f32[4@dp]\n"
            "gradient f32[4] {partial sum: dp}\n"
            "sent bf16[4@dp]\n"
            "read f32[4@dp]\n"
            "next f32[4@dp]\n");
  marks.push_back(shard_tensor("read", "[@dp] {partial sum: mb}"));
  EXPECT_EQ(print_placements(graph, propagate(graph, timed, marks)),
            "x f32[8@mb@dp, 4]\n"
            "state f32[4@dp]\n"
            "gradient f32[4] {partial sum: mb, dp}\n"
            "sent bf16[4@dp] {partial sum: mb}\n"
            "read f32[4@dp] {partial sum: mb}\n"
            "next f32[4@dp]\n");
}

TEST(Propagation, WindowsBelongToOpsAndNotToTensors) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 8}));
  b.unary("tanh", b.slice(x, {0, 2}, {8, 6}, {1, 1}, "s"), "t");
  const ShardedGraph sharded =
      propagate(graph, mesh_of("tp=2"), {shard_tensor("x", "P(None,\"tp\")", "a.json")});
  EXPECT_EQ(print_placements(graph, sharded), "x f32[8, 8@tp]\ns f32[8, 4@tp]\nt f32[8, 4@tp]\n");
  EXPECT_TRUE(sharded.notes.empty());
  const OpView slice = view(graph, graph.op({0}));
  EXPECT_EQ(to_text(f32({8, 8}), input_attr(slice, sharded.rules[0], sharded.ops[0], 0)),
            "f32[8, 8@tp~4(+2:+2)]");
}

// As with zero: the state of the optimizer is divided over the axis that divides the rows. The ops
// of the last stage divide their rows, as those of the first one do.
TEST(Propagation, TheRowsOfABatchReachLaterStagesBeforeTheStateOfTheOptimizerDoes) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 4}));
  const ValueId w = b.variable("w", f32({4}), Initializer::constant(1));
  const ValueId state = b.variable("state", f32({4}), Initializer::constant(0));
  const ValueId sent = b.unary("tanh", x, "sent");
  const ValueId y = b.mul(sent, b.broadcast(w, {8, 4}, {1}, "rows"), "y");
  graph.set_next(state, b.add(state, b.reduce_sum(y, {0}, "gradient"), "next"));
  const Meshes meshes{{"first", mesh_of("dp=2")}, {"last", mesh_of("dp=2")}};
  const ShardedGraph sharded =
      propagate(graph, meshes,
                {stage("sent", "first"), stage("{rows,y,gradient,next}", "last"),
                 shard_tensor("x", "P(\"dp\")"), shard_tensor("w", "P()"),
                 shard_tensor("state", "P(\"dp\")")});
  EXPECT_EQ(print_placements(graph, sharded),
            "x f32[8@dp, 4]\n"
            "w f32[4]\n"
            "state f32[4@dp]\n"
            "sent f32[8@dp, 4]\n"
            "rows f32[8@dp, 4]\n"
            "y f32[8@dp, 4]\n"
            "gradient f32[4@dp]\n"
            "next f32[4@dp]\n");
}

// Found by fuzzing: the axes of one mesh were used as those of the other.
TEST(Propagation, AMarkOnANextValueHoldsOnTheMeshThatMakesIt) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({4, 4}), Initializer::constant(1));
  const ValueId kept = b.unary("neg", w, "kept");
  graph.set_next(w, b.unary("tanh", kept, "next"));
  const Meshes meshes{{"first", mesh_of("a=2")}, {"last", mesh_of("a=2 b=2")}};
  const ShardedGraph sharded = propagate(
      graph, meshes,
      {stage("kept", "first"), stage("next", "last"), shard_tensor("next", "P(None,\"b\")")});
  EXPECT_EQ(to_text(sharded.at(w)), "[*, *]");
  EXPECT_EQ(sharded.at(*graph.find_op("next")).factor_axes[1], std::vector<int>{1});
}

}  // namespace
}  // namespace tessera
