// Placements with windows: their text, and ops that are divided into overlapping parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator_rule.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(Windows, TextReadsBackTheSame) {
  const MeshPtr mesh = mesh_of("dp=2 h=3 tp=2");
  for (const char* text :
       {"f32[34@h~32(+0:+2), 8]", "f32[64@h~32(*2-1:+1), 8@tp]", "f32[16@h~32(/2-1:+1)]",
        "f32[9@h~6(*3/2-1:+0)]", "f32[30@dp@h:5~40(-5:-5)] {partial sum: tp}",
        "f32[12@h~8(+0:+2)~10(+0:+2)]"}) {
    const DistType read = parse_dist_type(text, mesh);
    EXPECT_EQ(to_text(read.type, read.attr), text);
    EXPECT_TRUE(read.attr.has_windows());
  }
  EXPECT_EQ(to_text(parse_dist_type("f32[34@h~32(+0:+2), 8]", mesh).attr), "[@h~32(+0:+2), *]");
}

TEST(Windows, GiveEachRankWhatItsPartNeeds) {
  // 8 rows over 3 ranks are 3, 3 and 2, each with a row on either side.
  const MeshPtr mesh = mesh_of("h=3");
  const DistType given = parse_dist_type("f32[8@h~8(-1:+1)]", mesh);
  EXPECT_EQ(to_text(given.attr.box({8}, {0})), "[0:4]");
  EXPECT_EQ(to_text(given.attr.box({8}, {1})), "[2:7]");
  EXPECT_EQ(to_text(given.attr.box({8}, {2})), "[5:8]");
  EXPECT_EQ(given.attr.largest_shape({8}), (Shape{5}));
}

std::string refusal_of(std::string_view text) {
  return error_testing::message_of(ExitCode::kBadConfig,
                                   [&] { parse_dist_type(text, mesh_of("h=2")); });
}

TEST(Windows, RefusesTextThatIsNone) {
  EXPECT_EQ(refusal_of("f32[8@h~8(1:2)]"),
            "'f32[8@h~8(1:2)]' is not a placement\n"
            "  why: the ends of a window have a sign\n"
            "  fix: write it as f32[64@h~32(*2-1:+1)]: rows 2b-1 to 2(e-1)+1 of 64 for each part "
            "[b, e) of 32");
  EXPECT_THAT(refusal_of("f32[8~8(+1:+2)]"), HasSubstr("a window is of what an axis divides"));
  EXPECT_THAT(refusal_of("f32[8@h~8]"), HasSubstr("'8' is not a window"));
  EXPECT_THAT(refusal_of("f32[8@h~8(*0+1:+1)]"), HasSubstr("multiplies and divides by 1 or more"));
}

/// An op with its rule.
struct Ruled {
  OpView op;
  ShardingRule rule;
};
Ruled ruled(const Graph& graph, std::string_view name) {
  const OpView op = view(graph, graph.op(*graph.find_op(name)));
  return {op, rule_of(*op.definition, op)};
}

TEST(OpSharding, AnOpMayMakeWhatALaterOneNeeds) {
  Graph graph;
  Builder b(graph);
  const ValueId t = b.unary("tanh", b.input("x", {DType::kF32, {10, 4}}), "t");
  b.slice(t, {1, 0}, {9, 4}, {1, 1}, "s");
  const MeshPtr mesh = mesh_of("h=2");
  const Ruled slice = ruled(graph, "s"), tanh = ruled(graph, "t");
  OpSharding later = OpSharding::replicated(mesh, slice.rule);
  later.factor_axes[0] = {0};
  const DistAttr needed = input_attr(slice.op, slice.rule, later, 0);
  // Rows 1 to 4 and 5 to 8: 4 of the slice's 8 rows each.
  EXPECT_EQ(to_text(needed), "[@h~8(+1:+1), *]");
  OpSharding earlier = OpSharding::replicated(mesh, tanh.rule);
  earlier.factor_axes[0] = {0};
  earlier.set_windows(tanh.rule, 0, needed.dims[0].windows);
  EXPECT_EQ(output_attr(tanh.op, tanh.rule, earlier, 0), needed);
  EXPECT_EQ(input_attr(tanh.op, tanh.rule, earlier, 0), needed);
  EXPECT_EQ(sharding_for_inputs(tanh.op, tanh.rule, {needed}), earlier);
  // These rows are what the slice needs when it reads them.
  EXPECT_EQ(sharding_for_inputs(slice.op, slice.rule, {needed}), later);
}

TEST(OpSharding, OverlappingPartsOfAReductionAreRefused) {
  Graph graph;
  Builder b(graph);
  b.reduce_sum(b.input("x", {DType::kF32, {8, 4}}), {0}, "s");
  const auto [op, rule] = ruled(graph, "s");
  const DistType x = parse_dist_type("f32[8@h~8(-1:+1), 4]", mesh_of("h=2"));
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadConfig,
                                      [&, &the_op = op, &the_rule = rule] {
                                        sharding_for_inputs(the_op, the_rule, {x.attr});
                                      }),
            "op 's': its operands hold overlapping parts of factor 'd0'\n"
            "  why: what overlaps would be reduced twice\n"
            "  fix: hold parts without windows");
  OpSharding sharding = OpSharding::replicated(x.attr.mesh, rule);
  EXPECT_THROW(sharding.set_windows(rule, 0, x.attr.dims[0].windows), InternalError);
}

}  // namespace
}  // namespace tessera
