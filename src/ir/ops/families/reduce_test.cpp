#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

using ReduceIntegers = std::vector<int64_t>;

std::string reduce_rule_text(const char* op, DType dtype, Shape shape, ReduceIntegers dims) {
  const Attributes attributes{{"op", op}, {"dims", dims}};
  OpView view{"r", attributes, {{dtype, shape}}, {}};
  view.outputs = find_operator("reduce").infer(view);
  return to_text(find_operator("reduce").rule(view));
}

std::string reduce_refusal(const char* op, DType dtype, Shape shape, ReduceIntegers dims) {
  try {
    reduce_rule_text(op, dtype, shape, dims);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

/// The gradient of x when the gradient of the result is ones.
std::vector<double> gradient(ReduceOp op, const std::vector<double>& x) {
  Graph graph;
  Builder builder(graph);
  const TensorType type{DType::kF32, {static_cast<int64_t>(x.size())}};
  const ValueId value = builder.input("x", type);
  const ValueId flow = builder.input("flow", {DType::kF32, {}});
  builder.reduce(op, value, {0}, "y");
  const Op forward = graph.ops().back();
  const auto gradients =
      find_operator("reduce").gradient(builder, {graph, forward, {flow}, {true}});
  const ReferenceValues values =
      interpret(graph, {{"x", {type, x}}, {"flow", {{DType::kF32, {}}, {1}}}});
  return values.at(graph.value(gradients[0].value()).name).values;
}

TEST(Reduce, LeavesAPartOfItsKindWhereAReducedDimIsDivided) {
  EXPECT_EQ(reduce_rule_text("sum", DType::kF32, {2, 3}, {1}),
            "([d0, d1]) -> ([d0]) {d1: reduction sum} {linear: 0}");
  EXPECT_EQ(reduce_rule_text("max", DType::kF32, {2, 3}, {0}),
            "([d0, d1]) -> ([d1]) {d0: reduction max}");
  EXPECT_EQ(reduce_rule_text("any", DType::kBool, {2, 3}, {0, 1}),
            "([d0, d1]) -> ([]) {d0: reduction any, d1: reduction any}");
}

TEST(Reduce, GivesTheIdentityForAnEmptyRange) {
  const Attributes attributes{{"op", "max"}, {"dims", ReduceIntegers{0}}};
  const OpView view{"r", attributes, {{DType::kI32, {0}}}, {{DType::kI32, {}}}};
  const ReferenceTensor x{view.inputs[0], {}};
  std::vector<ReferenceTensor> outputs{{view.outputs[0], {0}}};
  find_operator("reduce").reference({view, {&x}, outputs});
  EXPECT_EQ(outputs[0].values, std::vector<double>{-2147483648.0});
}

TEST(Reduce, SharesTheGradientAmongEqualMaxima) {
  EXPECT_EQ(gradient(ReduceOp::kMax, {1, 4, 2, 4}), (std::vector<double>{0, 0.5, 0, 0.5}));
  EXPECT_EQ(gradient(ReduceOp::kMin, {1, 4, 2, 4}), (std::vector<double>{1, 0, 0, 0}));
}

TEST(Reduce, HasTheProductOfTheOthersAsGradientOfAProduct) {
  EXPECT_EQ(gradient(ReduceOp::kProd, {2, 4, -1}), (std::vector<double>{-4, -2, 8}));
}

TEST(Reduce, RefusesADimThatXHasNot) {
  EXPECT_EQ(reduce_refusal("sum", DType::kF32, {2, 3}, {2}),
            "reduce 'r': dims [2] do not fit x f32[2,3]\n"
            "  why: each dim to reduce is listed once, counted from 0, and x has 2 dims\n"
            "  fix: correct the list of dims");
}

TEST(Reduce, RefusesANumberWhereItTakesBooleans) {
  EXPECT_EQ(reduce_refusal("any", DType::kF32, {2, 3}, {1}),
            "reduce 'r': x f32[2,3] has an element type that does not fit\n"
            "  why: reduce takes bool for x\n"
            "  fix: cast the operand first");
}

}  // namespace
}  // namespace tessera
