// Derives the placements of an op's inputs from those of its outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator_rule.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {
namespace {

using error_testing::message_of;

/// The placements that the last op needs of its inputs for the placement `output` on dp=2 tp=2.
std::string inputs_for(const Graph& graph, std::string_view output) {
  const OpView op = view(graph, graph.ops().back());
  const ShardingRule rule = rule_of(*op.definition, op);
  const DistType wanted =
      parse_dist_type(output, std::make_shared<const Mesh>(parse_mesh("dp=2 tp=2")));
  const OpSharding sharding = sharding_for_outputs(op, rule, {wanted.attr});
  EXPECT_EQ(output_attr(op, rule, sharding, 0), wanted.attr);
  std::vector<std::string> texts;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    texts.push_back(to_text(input_attr(op, rule, sharding, static_cast<int>(i))));
  return join(texts, " x ");
}

Graph product() {
  Graph graph;
  Builder b(graph);
  b.dot(b.input("a", f32({8, 6})), b.input("b", f32({6, 4})), "mk,kn->mn", "c");
  return graph;
}

TEST(ReverseInference, OfAMatmulTakesRowsColumnsAndPartialSums) {
  const Graph graph = product();
  EXPECT_EQ(inputs_for(graph, "f32[8@dp, 4@tp]"), "[@dp, *] x [*, @tp]");
  EXPECT_EQ(inputs_for(graph, "f32[8@tp@dp, 4]"), "[@tp@dp, *] x [*, *]");
  EXPECT_EQ(inputs_for(graph, "f32[8@dp, 4] {partial sum: tp}"), "[@dp, @tp] x [@tp, *]");
  EXPECT_EQ(inputs_for(graph, "f32[8, 4] {partial sum: dp, tp}"), "[*, @dp@tp] x [@dp@tp, *]");
}

TEST(ReverseInference, OfALookupDividesItsRows) {
  Graph graph;
  Builder b(graph);
  b.gather(b.input("table", f32({8, 3})), b.input("ids", {DType::kI32, {6}}), "y");
  EXPECT_EQ(inputs_for(graph, "f32[6@dp, 3] {partial sum: tp}"), "[@tp, *] x [@dp]");
}

TEST(ReverseInference, OfALinearOpPassesPartialSumsOn) {
  Graph graph;
  Builder b(graph);
  b.add(b.input("x", f32({4, 6})), b.input("y", f32({4, 6})), "s");
  EXPECT_EQ(inputs_for(graph, "f32[4@dp, 6] {partial sum: tp}"),
            "[@dp, *] {partial sum: tp} x [@dp, *] {partial sum: tp}");
}

TEST(ReverseInference, OfASliceAsksForItsWindowOrItsChunk) {
  Graph graph;
  Builder b(graph);
  b.slice(b.input("x", f32({7, 6})), {2, 3}, {6, 6}, {1, 1}, "y");
  EXPECT_EQ(inputs_for(graph, "f32[4@dp, 3]"), "[@dp~4(+2:+2), *]");
  EXPECT_EQ(inputs_for(graph, "f32[4, 3@tp]"), "[*, @tp/2]");
}

TEST(ReverseInference, RefusesPartialOutputsThatNothingMakes) {
  Graph graph;
  Builder b(graph);
  b.unary("tanh", b.input("x", f32({4})), "t");
  EXPECT_EQ(
      message_of(ExitCode::kBadConfig, [&] { inputs_for(graph, "f32[4] {partial sum: tp}"); }),
      "op 't': its outputs are partial on axis 'tp' and nothing makes them so\n"
      "  why: a Partial(sum) comes from a divided reduction of that kind, or passes through a "
      "linear op\n"
      "  fix: use Replicate() or Shard(dim)");
  EXPECT_THAT(message_of(ExitCode::kBadConfig,
                         [&] { inputs_for(product(), "f32[8, 4] {partial max: tp}"); }),
              testing::HasSubstr("a Partial(max) comes from a divided reduction of that kind"));
}

}  // namespace
}  // namespace tessera
