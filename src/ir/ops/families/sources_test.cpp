#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/error.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/operator_rule.h"

namespace tessera {
namespace {

using error_testing::message_of;

constexpr DType kSourcesF32 = DType::kF32;
constexpr DType kI32 = DType::kI32;

using Values = std::vector<double>;

/// An extent in two parts along axis `axis` of the mesh.
Split halves(int64_t extent, int axis) {
  return {extent, 1, {{axis, 2}}};
}

OpView sources_view_of(const Graph& graph, ValueId value) {
  return view(graph, graph.op(graph.value(value).producer));
}

TEST(Constant, HasTheValueThatItsElementTypeHolds) {
  Graph graph;
  Builder builder(graph);
  builder.constant({kSourcesF32, {2}}, 0.1, "f");
  builder.constant({kI32, {}}, 7, "i");
  builder.constant({DType::kBool, {1}}, 3, "b");
  const ReferenceValues values = interpret(graph, {});
  EXPECT_EQ(values.at("f").values, (Values{static_cast<double>(0.1f), static_cast<double>(0.1f)}));
  EXPECT_EQ(values.at("i").values, (Values{7}));
  EXPECT_EQ(values.at("b").values, (Values{1}));
}

TEST(Constant, DividesEveryDimOfItsResult) {
  Graph graph;
  Builder builder(graph);
  const OpView op = sources_view_of(graph, builder.constant({kSourcesF32, {2, 3}}, 0.5));
  EXPECT_EQ(to_text(find_operator("constant").rule(op)), "() -> ([d0, d1])");
  EXPECT_EQ(find_operator("constant").kernel(op, std::vector<Split>{halves(2, 0), halves(3, 1)}),
            (KernelCall{"constant", {}, {0.5}, ""}));
}

TEST(Constant, OfZerosIsAPartialSum) {
  Graph graph;
  Builder builder(graph);
  const auto rule_text = [&](DType dtype, double value) {
    const OpView op = sources_view_of(graph, builder.constant({dtype, {4}}, value));
    return to_text(rule_of(*op.definition, op));
  };
  EXPECT_EQ(rule_text(kSourcesF32, 0), "() -> ([d0]) {linear: none}");
  EXPECT_EQ(rule_text(kI32, 0), "() -> ([d0]) {linear: none}");
  EXPECT_EQ(rule_text(kSourcesF32, 1), "() -> ([d0])");
  EXPECT_EQ(rule_text(DType::kBool, 0), "() -> ([d0])");
}

TEST(Constant, RefusesWhatIsNoShapeOrElementType) {
  Graph graph;
  Builder builder(graph);
  EXPECT_EQ(
      message_of(ExitCode::kBadData, [&] { builder.constant({kSourcesF32, {2, -3}}, 1, "c"); }),
      "constant 'c': shape [2, -3] is not a shape\n"
      "  why: a shape has at most 8 extents, none below 0\n"
      "  fix: correct the extents");
  EXPECT_EQ(message_of(ExitCode::kBadData,
                       [&] {
                         builder.op(
                             "constant", {},
                             {{"dtype", "f80"}, {"shape", std::vector<int64_t>{}}, {"value", 1.0}},
                             "c");
                       }),
            "constant 'c': 'f80' is not an element type\n"
            "  why: tensors hold f32, i32, bool, f64, i64, i8, u8, f16 or bf16\n"
            "  fix: use one of these");
}

TEST(Iota, NumbersTheIndicesOfOneDim) {
  Graph graph;
  Builder builder(graph);
  builder.iota({kI32, {2, 3}}, 0, "rows");
  builder.iota({kSourcesF32, {2, 3}}, 1, "columns");
  const ReferenceValues values = interpret(graph, {});
  EXPECT_EQ(values.at("rows").values, (Values{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(values.at("columns").values, (Values{0, 1, 2, 0, 1, 2}));
}

TEST(Iota, APartBeginsWhereItLies) {
  Graph graph;
  Builder builder(graph);
  const OpView op = sources_view_of(graph, builder.iota({kI32, {4, 5}}, 1));
  const KernelCall call =
      find_operator("iota").kernel(op, std::vector<Split>{halves(4, 0), halves(5, 1)});
  EXPECT_EQ(call.kernel, "iota");
  ASSERT_EQ(call.ints.size(), 2u);
  EXPECT_EQ(call.ints[0].at({0, 1}), 1);  // the dim
  EXPECT_EQ(call.ints[1].at({0, 0}), 0);
  EXPECT_EQ(call.ints[1].at({1, 1}), 3);  // 5 = 3 + 2
}

TEST(Iota, RefusesADimThatIsNotThere) {
  Graph graph;
  Builder builder(graph);
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.iota({kI32, {4, 5}}, 2); }),
            "iota 'iota': dim 2 is not a dim of a tensor of rank 2\n"
            "  why: dims count from 0, the outermost\n"
            "  fix: use 0 to 1");
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.iota({DType::kBool, {4}}, 0); }),
            "iota 'iota': a bool cannot count\n"
            "  why: iota numbers the indices of a dim, as i32 or f32\n"
            "  fix: use dtype i32, and compare it");
}

TEST(RandomUniform, DrawsWhatItsStreamDrawsAtTheStepGiven) {
  Graph graph;
  Builder builder(graph, 9);
  builder.random_uniform(builder.input("step", {kI32, {}}), {2, 3}, "noise");
  const ReferenceValues values = interpret(graph, {{"step", {{kI32, {}}, {4}}}});
  const RandomStream stream(random_key(9, "noise"), 4);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(values.at("noise").values[i], stream.uniform(i));
}

TEST(RandomUniform, APartKnowsWhereItLiesInTheWhole) {
  Graph graph;
  Builder builder(graph, 9);
  const ValueId noise = builder.random_uniform(builder.input("step", {kI32, {}}), {4, 5}, "noise");
  const OpView op = sources_view_of(graph, noise);
  EXPECT_EQ(to_text(find_operator("random_uniform").rule(op)), "([]) -> ([d0, d1])");
  const KernelCall call =
      find_operator("random_uniform").kernel(op, std::vector<Split>{halves(4, 0), halves(5, 1)});
  std::vector<int64_t> ints;
  for (const LocalInt& value : call.ints) ints.push_back(value.at({1, 1}));
  // The key, where the part begins (4 = 2 + 2, 5 = 3 + 2), and the extents of the whole.
  EXPECT_EQ(ints, (std::vector<int64_t>{static_cast<int64_t>(random_key(9, "noise")), 2, 3, 4, 5}));
}

TEST(RandomUniform, RefusesAStepThatIsNoInteger) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {kSourcesF32, {}});
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.random_uniform(x, {2}, "noise"); }),
            "random_uniform 'noise': step f32[] is not i32[]\n"
            "  why: the numbers are addressed by the step of the training run, one integer\n"
            "  fix: give it the input that counts the steps");
}

}  // namespace
}  // namespace tessera
