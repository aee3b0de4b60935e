// Dims of several equal pieces, which are divided alike: q, k and v, and merged dims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator_rule.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The elements of the list `whole` that the i-th rank holds.
std::vector<int> held(const std::vector<int>& whole, std::string_view text, int i) {
  const DistType given = parse_dist_type(text, mesh_of("tp=2"));
  const std::vector<int64_t> indices = given.attr.indices(given.type.shape, {i}).front();
  std::vector<int> part;
  for (int64_t index : indices) part.push_back(whole[index]);
  return part;
}

TEST(Chunks, EachChunkIsDividedAlike) {
  EXPECT_THAT(held({1, 1, 2, 2}, "i32[4@tp/2]", 0), ElementsAre(1, 2));
  EXPECT_THAT(held({1, 1, 2, 2}, "i32[4@tp/2]", 1), ElementsAre(1, 2));
  EXPECT_THAT(held({1, 1, 2, 2}, "i32[4@tp]", 0), ElementsAre(1, 1));
  EXPECT_THAT(held({1, 1, 2, 2}, "i32[4@tp]", 1), ElementsAre(2, 2));
}

TEST(Chunks, MayBeUnevenAndHaveUnits) {
  const MeshPtr mesh = mesh_of("tp=2");
  // Two chunks of 3 units of 2: the ranks hold 2 units and 1 unit of each.
  const DistType given = parse_dist_type("f32[12@tp:2/2, 5]", mesh);
  const std::vector<Piece> first = given.attr.pieces({12, 5}, {0});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(to_text(first[0].box), "[0:4, 0:5]");
  EXPECT_EQ(to_text(first[1].box), "[6:10, 0:5]");
  // Row 6 of the whole is row 4 of the part.
  EXPECT_EQ(to_text(first[1].frame), "[2:10, 0:5]");
  EXPECT_EQ(given.attr.local_shape({12, 5}, {0}), (Shape{8, 5}));
  EXPECT_EQ(given.attr.local_shape({12, 5}, {1}), (Shape{4, 5}));
  EXPECT_EQ(given.attr.largest_shape({12, 5}), (Shape{8, 5}));
}

TEST(Chunks, TextReadsBackTheSame) {
  const MeshPtr mesh = mesh_of("dp=2 tp=2");
  for (const char* text : {"f32[3072@tp/3]", "f32[3072@dp@tp:64/3, 8]", "f32[8@dp, 12@tp/2]"}) {
    const DistType read = parse_dist_type(text, mesh);
    EXPECT_EQ(to_text(read.type, read.attr), text);
  }
  const auto refusal_of = [&](std::string_view text) {
    return error_testing::message_of(ExitCode::kBadConfig, [&] { parse_dist_type(text, mesh); });
  };
  EXPECT_THAT(refusal_of("f32[8@tp/0]"), HasSubstr("there is at least one chunk"));
  EXPECT_THAT(refusal_of("f32[8@tp/2~8(-1:+1)]"),
              HasSubstr("what is divided in chunks has no windows"));
}

std::string placements_of(const Graph& graph, const std::vector<Mark>& marks) {
  return print_placements(graph, propagate(graph, mesh_of("tp=2"), marks));
}

TEST(Chunks, AMergedDimIsDividedAsItsParts) {
  const auto flattened = [](const std::string& mark) {
    Graph graph;
    Builder b(graph);
    b.reshape(b.input("x", f32({128, 3, 32, 32})), {128, 3072}, "y");
    const ShardedGraph sharded = propagate(graph, mesh_of("tp=2"), {shard_tensor("x", mark)});
    return to_text(graph.type({1}), sharded.at(ValueId{1}));
  };
  EXPECT_EQ(flattened("Shard(0)"), "f32[128@tp, 3072]");
  // Channels are divided 2 + 1: 2048 and 1024 columns.
  EXPECT_EQ(flattened("Shard(1)"), "f32[128, 3072@tp:1024]");
  // A row is 32 columns of each channel.
  EXPECT_EQ(flattened("Shard(2)"), "f32[128, 3072@tp/3]");
  EXPECT_EQ(flattened("Shard(3)"), "f32[128, 3072@tp/96]");
}

TEST(Chunks, GoThroughElementwiseOpsAndProducts) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({4, 3, 8}));
  const ValueId t = b.unary("tanh", b.reshape(x, {4, 24}, "flat"), "t");
  b.dot(t, b.input("w", f32({24, 5})), "mk,kn->mn", "y");
  // The product reduces over the indices that a rank has, whichever they are. w has one piece, and
  // its rows are exchanged.
  const ShardedGraph sharded = propagate(graph, mesh_of("tp=2"), {shard_tensor("x", "Shard(2)")});
  EXPECT_EQ(print_placements(graph, sharded),
            "x f32[4, 3, 8@tp]\n"
            "flat f32[4, 24@tp/3]\n"
            "t f32[4, 24@tp/3]\n"
            "w f32[24@tp, 5]\n"
            "y f32[4, 5]\n");
  const OpView product = view(graph, graph.op(*graph.find_op("y")));
  EXPECT_EQ(to_text(input_attr(product, sharded.rules[2], sharded.ops[2], 0)), "[*, @tp/3]");
  EXPECT_EQ(to_text(input_attr(product, sharded.rules[2], sharded.ops[2], 1)), "[@tp/3, *]");
  EXPECT_EQ(to_text(output_attr(product, sharded.rules[2], sharded.ops[2], 0)),
            "[*, *] {partial sum: tp}");
}

TEST(Chunks, AreTheHeadsOfQueriesKeysAndValues) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({4, 24}));
  const ValueId t = b.unary("tanh", x, "t");
  const ValueId q = b.slice(t, {0, 0}, {4, 8}, {1, 1}, "q"),
                k = b.slice(t, {0, 8}, {4, 16}, {1, 1}, "k");
  b.concat({q, k}, 1, "both");
  // The mark is on a slice. The tensor from which it is cut has three chunks, and the concatenation
  // of two slices has two. Inputs have one piece.
  EXPECT_EQ(placements_of(graph, {shard_tensor("q", "Shard(1)")}),
            "x f32[4, 24@tp]\n"
            "t f32[4, 24@tp/3]\n"
            "q f32[4, 8@tp]\n"
            "k f32[4, 8@tp]\n"
            "both f32[4, 16@tp/2]\n");
}

TEST(Chunks, KernelsThatDependOnTheirPositionGetOnePiece) {
  Graph graph;
  Builder b(graph);
  const ValueId i = b.iota(f32({4, 24}), 1, "i");
  b.slice(i, {0, 8}, {4, 16}, {1, 1}, "s");
  const ShardedGraph sharded = propagate(graph, mesh_of("tp=2"), {shard_tensor("s", "Shard(1)")});
  EXPECT_EQ(to_text(output_attr(view(graph, graph.op({0})), sharded.rules[0], sharded.ops[0], 0)),
            "[*, @tp]");
  EXPECT_EQ(to_text(input_attr(view(graph, graph.op({1})), sharded.rules[1], sharded.ops[1], 0)),
            "[*, @tp/3]");
}

TEST(Chunks, TwoFactorsOfOneDimAreNotDividedAtOnce) {
  Graph graph;
  Builder b(graph);
  b.reshape(b.input("x", f32({4, 6})), {24}, "y");
  const OpView op = view(graph, graph.op({0}));
  const ShardingRule rule = rule_of(*op.definition, op);
  EXPECT_EQ(to_text(rule), "([d0, d0_1]) -> ([d0*6 or d0_1/4]) {linear: 0}");
  const MeshPtr mesh = mesh_of("dp=2 tp=2");
  EXPECT_EQ(error_testing::message_of(
                ExitCode::kBadConfig,
                [&] { sharding_for_inputs(op, rule, {from_spec(mesh, 2, {"dp", "tp"})}); }),
            "op 'y': its operands divide factors 'd0' and 'd0_1'\n"
            "  why: both are of one dim, which is divided in one way\n"
            "  fix: leave one of the two whole");
}

}  // namespace
}  // namespace tessera
