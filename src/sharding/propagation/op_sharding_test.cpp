#include "sharding/propagation/op_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator_rule.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/marks.h"

namespace tessera {
namespace {

using error_testing::message_of;

struct OneOp {
  Graph graph;
  OpView op_view() const { return view(graph, graph.ops().back()); }
  ShardingRule rule() const { return find_operator(graph.ops().back().kind).rule(op_view()); }
};

/// A(64,10) x B(10,50).
OneOp matmul() {
  OneOp one;
  Builder builder(one.graph);
  const ValueId a = builder.input("a", {DType::kF32, {64, 10}});
  const ValueId b = builder.input("b", {DType::kF32, {10, 50}});
  builder.dot(a, b, "mk,kn->mn", "c");
  return one;
}

std::vector<std::string> signature_texts(const OneOp& one) {
  std::vector<std::string> texts;
  for (const Signature& signature : signatures(one.op_view(), one.rule()))
    texts.push_back(to_text(signature));
  return texts;
}

TEST(Signatures, OfAMatmulAreExactlyTheseSix) {
  EXPECT_THAT(signature_texts(matmul()),
              testing::UnorderedElementsAre("(S0,B)->S0", "(B,S1)->S1", "(S1,S0)->P", "(B,B)->B",
                                            "(P,B)->P", "(B,P)->P"));
}

TEST(Signatures, OfAnAddTakePartialSumsOnlyTogether) {
  OneOp one;
  Builder builder(one.graph);
  const ValueId x = builder.input("x", {DType::kF32, {4, 6}});
  builder.add(x, x);
  EXPECT_THAT(signature_texts(one),
              testing::UnorderedElementsAre("(S0,S0)->S0", "(S1,S1)->S1", "(B,B)->B", "(P,P)->P"));
}

TEST(Signatures, OfAReductionLeaveAPartialOfItsKind) {
  OneOp one;
  Builder builder(one.graph);
  builder.reduce(ReduceOp::kMax, builder.input("x", {DType::kF32, {4, 6}}), {1});
  EXPECT_THAT(signature_texts(one),
              testing::UnorderedElementsAre("(S0)->S0", "(S1)->P(max)", "(B)->B"));
}

TEST(OpSharding, TwoPartialSumsMayNotBeMultiplied) {
  const MeshPtr mesh = mesh_of("x=2");
  const OneOp one = matmul();
  const DistAttr partial = from_placements(mesh, 2, {Partial()});
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] { sharding_for_inputs(one.op_view(), one.rule(), {partial, partial}); }),
            "op 'c': its inputs are partial sums on axis 'x' where it is not linear in them\n"
            "  why: a partial sum may pass only through an op that is linear in exactly the "
            "operands that are partial\n"
            "  fix: reduce them first: Replicate() or Shard(dim)");
}

TEST(OpSharding, PartsOfEachOperandGiveItsLocalShapes) {
  const MeshPtr mesh = mesh_of("x=4");
  const OneOp one = matmul();
  const Mark mark = shard_op("c", "((4,1),(1,1))");
  const ResolvedMarks marks = resolve_marks(one.graph, mesh, {mark});
  ASSERT_EQ(marks.ops.size(), 1u);
  const auto local = [&](int input) {
    return input_attr(one.op_view(), one.rule(), marks.ops[0].sharding, input)
        .largest_shape(one.op_view().inputs[input].shape);
  };
  EXPECT_EQ(local(0), (Shape{16, 10}));
  EXPECT_EQ(local(1), (Shape{10, 50}));
}

TEST(OpSharding, PartsThatShareAFactorShareItsAxis) {
  const MeshPtr mesh = mesh_of("dp=2 tp=2");
  const OneOp one = matmul();
  const Mark mark = shard_op("c", "((2,2),(2,1))");
  const OpSharding sharding = resolve_marks(one.graph, mesh, {mark}).ops[0].sharding;
  EXPECT_EQ(to_text(input_attr(one.op_view(), one.rule(), sharding, 0)), "[@dp, @tp]");
  EXPECT_EQ(to_text(input_attr(one.op_view(), one.rule(), sharding, 1)), "[@tp, *]");
  EXPECT_EQ(to_text(output_attr(one.op_view(), one.rule(), sharding, 0)),
            "[@dp, *] {partial sum: tp}");
}

TEST(OpSharding, OperandsThatDisagreeAreRefused) {
  const MeshPtr mesh = mesh_of("x=2 y=2");
  const OneOp one = matmul();
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] {
                         sharding_for_inputs(
                             one.op_view(), one.rule(),
                             {from_spec(mesh, 2, {"", "x"}), from_spec(mesh, 2, {"y", ""})});
                       }),
            "op 'c': its operands divide factor 'k' differently\n  why: a factor is divided in one "
            "way\n  fix: give equal axes to the dims of "
            "this factor");
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] {
                         sharding_for_inputs(
                             one.op_view(), one.rule(),
                             {from_spec(mesh, 2, {"x", ""}), from_spec(mesh, 2, {"", "x"})});
                       }),
            "op 'c': axis 'x' is used twice\n  why: an axis divides one factor of an op\n  fix: "
            "use another axis, or leave one of the two dims "
            "whole");
}

TEST(Marks, ThatNameNothingOrContradictEachOtherAreRefused) {
  const MeshPtr mesh = mesh_of("x=2");
  const OneOp one = matmul();
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] {
                         resolve_marks(one.graph, mesh,
                                       {shard_tensor("aa", "P(\"x\")", "plan.json marks[0]")});
                       }),
            "mark 'aa' (plan.json marks[0]) names no tensor of this model\n  why: the model has "
            "other names: the mark may be for another model\n"
            "  fix: did you mean 'a'?");
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] {
                         resolve_marks(one.graph, mesh,
                                       {shard_tensor("a", "P(\"x\")", "one"),
                                        shard_tensor("*", "P(None,\"x\")", "two")});
                       }),
            "two marks place 'a' differently\n  why: mark 'a' (one) says [@x, *], mark '*' (two) "
            "says [*, @x]\n  fix: remove one of them, or "
            "narrow its pattern");
  EXPECT_EQ(message_of(
                ExitCode::kBadConfig,
                [&] { resolve_marks(one.graph, mesh, {shard_tensor("a", "P(None,None,\"x\")")}); }),
            "mark 'a' (code) does not fit tensor 'a' f32[64,10]: a spec of 3 entries names a dim "
            "that is not there\n  why: the tensor has "
            "2 dims\n"
            "  fix: give at most one entry a dim");
}

TEST(Marks, OnlyZerosAreMadeAsAPartialSumOfNothing) {
  const MeshPtr mesh = mesh_of("x=2");
  for (double value : {0, 1}) {
    Graph graph;
    Builder builder(graph);
    const ValueId made = builder.constant({DType::kF32, {4}}, value, "made");
    const OpView op = view(graph, graph.op(graph.value(made).producer));
    const ShardingRule rule = rule_of(*op.definition, op);
    DistAttr sum = DistAttr::replicated(mesh, 1);
    sum.partial = {{0, ReduceOp::kSum}};
    if (value == 0)
      EXPECT_EQ(to_text(output_attr(op, rule, sharding_for_outputs(op, rule, {sum}), 0)),
                "[*] {partial sum: x}");
    else
      EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { sharding_for_outputs(op, rule, {sum}); }),
                  testing::HasSubstr("nothing makes them so"));
  }
}

TEST(Marks, OnlyAZeroInitializedVariableMayBePartial) {
  const MeshPtr mesh = mesh_of("x=2 y=2");
  Graph graph;
  graph.add_input("x", {DType::kF32, {4}});
  graph.add_variable("zero", {DType::kF32, {4}}, Initializer::constant(0));
  graph.add_variable("one", {DType::kF32, {4}}, Initializer::constant(1));
  const ResolvedMarks marks =
      resolve_marks(graph, mesh, {shard_tensor("zero", "(x: Partial(sum), y: Shard(0))")});
  EXPECT_EQ(to_text(marks.values.at(0).attr), "[@y] {partial sum: x}");
  for (const std::string name : {"x", "one"})
    EXPECT_EQ(
        message_of(ExitCode::kBadConfig,
                   [&] { resolve_marks(graph, mesh, {shard_tensor(name, "x: Partial(sum)")}); }),
        "mark '" + name + "' (code) makes '" + name +
            "' partial\n  why: an input cannot be partial; a variable can be a partial sum only if "
            "it is "
            "initialized to zero\n  fix: use Replicate() or Shard(dim)");
}

TEST(Marks, SeveralPlacementsOfOneOperandStandInBrackets) {
  const MeshPtr mesh = mesh_of("x=2 y=2");
  const OneOp one = matmul();
  const ResolvedMarks marks = resolve_marks(
      one.graph, mesh, {shard_op("c", "[(x: Shard(0), y: Shard(1)), (y: Shard(0))]")});
  const OpSharding& sharding = marks.ops.at(0).sharding;
  EXPECT_EQ(to_text(input_attr(one.op_view(), one.rule(), sharding, 0)), "[@x, @y]");
  EXPECT_EQ(to_text(output_attr(one.op_view(), one.rule(), sharding, 0)),
            "[@x, *] {partial sum: y}");
}

}  // namespace
}  // namespace tessera
