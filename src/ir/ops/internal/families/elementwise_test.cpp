// Element-wise operators: their values, their rules, their kernel calls, and the comparison of
// their gradients with central differences of the plain reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

constexpr DType kElementwiseF32 = DType::kF32;
constexpr DType kElementwiseI32 = DType::kI32;
constexpr DType kBool = DType::kBool;

using ElementwiseValues = std::vector<double>;

/// An op on vectors: operand i is the i-th list.
struct Case {
  std::string kind;
  DType dtype = kElementwiseF32;
  std::vector<ElementwiseValues> operands;
  Attributes attributes = {};
};

struct Program {
  Graph graph;
  ReferenceValues state;
  std::vector<ValueId> operands;
  ValueId result;
};

std::string letter(size_t operand) {
  return std::string(1, static_cast<char>('a' + operand));
}

Program program_of(const Case& test) {
  Program program;
  Builder builder(program.graph);
  for (size_t i = 0; i < test.operands.size(); ++i) {
    // The first operand of select is its condition.
    const TensorType type{test.kind == "select" && i == 0 ? kBool : test.dtype,
                          {static_cast<int64_t>(test.operands[i].size())}};
    program.operands.push_back(builder.input(letter(i), type));
    program.state[letter(i)] = {type, test.operands[i]};
  }
  program.result = builder.op1(test.kind, program.operands, test.attributes, "y");
  return program;
}

ReferenceTensor run(const Case& test) {
  const Program program = program_of(test);
  return interpret(program.graph, program.state).at("y");
}

ElementwiseValues elementwise_values_of(const Case& test) {
  return run(test).values;
}

OpView elementwise_view_of(const Program& program) {
  return view(program.graph, program.graph.op(program.graph.value(program.result).producer));
}

TEST(Elementwise, OperatorsOfOneOperandHaveTheirValues) {
  using std::numbers::pi;
  EXPECT_EQ(elementwise_values_of({"neg", kElementwiseF32, {{2, -0.5}}}),
            (ElementwiseValues{-2, 0.5}));
  EXPECT_EQ(elementwise_values_of({"abs", kElementwiseF32, {{2, -0.5}}}),
            (ElementwiseValues{2, 0.5}));
  EXPECT_EQ(elementwise_values_of({"floor", kElementwiseF32, {{2.5, -0.5}}}),
            (ElementwiseValues{2, -1}));
  EXPECT_EQ(elementwise_values_of({"square", kElementwiseF32, {{3, -0.5}}}),
            (ElementwiseValues{9, 0.25}));
  EXPECT_EQ(elementwise_values_of({"sign", kElementwiseF32, {{3, 0, -0.5}}}),
            (ElementwiseValues{1, 0, -1}));
  EXPECT_EQ(elementwise_values_of({"sqrt", kElementwiseF32, {{9, 0.25}}}),
            (ElementwiseValues{3, 0.5}));
  EXPECT_EQ(elementwise_values_of({"rsqrt", kElementwiseF32, {{4, 0.25}}}),
            (ElementwiseValues{0.5, 2}));
  EXPECT_EQ(elementwise_values_of({"exp", kElementwiseF32, {{0, std::log(3.0)}}})[0], 1);
  // Each of these is one call of the library in double, within a few units of 2^-53.
  EXPECT_NEAR(elementwise_values_of({"exp", kElementwiseF32, {{2}}})[0],
              std::numbers::e * std::numbers::e, 0x1p-49);
  EXPECT_NEAR(elementwise_values_of({"log", kElementwiseF32, {{8}}})[0], 3 * std::numbers::ln2,
              0x1p-50);
  EXPECT_NEAR(elementwise_values_of({"tanh", kElementwiseF32, {{std::numbers::ln2}}})[0], 0.6,
              0x1p-51);  // (2 - 1/2) / (2 + 1/2)
  EXPECT_NEAR(elementwise_values_of({"logistic", kElementwiseF32, {{std::log(3.0)}}})[0], 0.75,
              0x1p-51);  // 1 / (1 + 1/3)
  EXPECT_NEAR(elementwise_values_of({"erf", kElementwiseF32, {{1}}})[0], 0.84270079294971487,
              0x1p-51);  // DLMF table 7.23
  EXPECT_NEAR(elementwise_values_of({"sin", kElementwiseF32, {{pi / 6}}})[0], 0.5, 0x1p-51);
  EXPECT_NEAR(elementwise_values_of({"cos", kElementwiseF32, {{pi / 3}}})[0], 0.5, 0x1p-51);
}

TEST(Elementwise, OperatorsOfTwoFloatsHaveTheirValues) {
  const std::vector<ElementwiseValues> operands{{3, -1, 4}, {2, 2, 4}};
  EXPECT_EQ(elementwise_values_of({"add", kElementwiseF32, operands}),
            (ElementwiseValues{5, 1, 8}));
  EXPECT_EQ(elementwise_values_of({"sub", kElementwiseF32, operands}),
            (ElementwiseValues{1, -3, 0}));
  EXPECT_EQ(elementwise_values_of({"mul", kElementwiseF32, operands}),
            (ElementwiseValues{6, -2, 16}));
  EXPECT_EQ(elementwise_values_of({"div", kElementwiseF32, operands}),
            (ElementwiseValues{1.5, -0.5, 1}));
  EXPECT_EQ(elementwise_values_of({"max", kElementwiseF32, operands}),
            (ElementwiseValues{3, 2, 4}));
  EXPECT_EQ(elementwise_values_of({"min", kElementwiseF32, operands}),
            (ElementwiseValues{2, -1, 4}));
  EXPECT_EQ(elementwise_values_of({"pow", kElementwiseF32, operands}),
            (ElementwiseValues{9, 1, 256}));
}

TEST(Elementwise, OperatorsOfIntegersRoundTowardMinusInfinity) {
  const std::vector<ElementwiseValues> operands{{7, -7, 7, -7}, {2, 2, -2, -2}};
  EXPECT_EQ(elementwise_values_of({"floordiv", kElementwiseI32, operands}),
            (ElementwiseValues{3, -4, -4, 3}));
  EXPECT_EQ(elementwise_values_of({"mod", kElementwiseI32, operands}),
            (ElementwiseValues{1, 1, -1, -1}));  // a - b floor(a / b): the sign of b
  EXPECT_EQ(elementwise_values_of({"add", kElementwiseI32, operands}),
            (ElementwiseValues{9, -5, 5, -9}));
}

TEST(Elementwise, OperatorsOfBoolsHaveTheirTruthTables) {
  const std::vector<ElementwiseValues> operands{{0, 0, 1, 1}, {0, 1, 0, 1}};
  EXPECT_EQ(elementwise_values_of({"and", kBool, operands}), (ElementwiseValues{0, 0, 0, 1}));
  EXPECT_EQ(elementwise_values_of({"or", kBool, operands}), (ElementwiseValues{0, 1, 1, 1}));
  EXPECT_EQ(elementwise_values_of({"xor", kBool, operands}), (ElementwiseValues{0, 1, 1, 0}));
  EXPECT_EQ(elementwise_values_of({"not", kBool, {{0, 1}}}), (ElementwiseValues{1, 0}));
}

TEST(Elementwise, OperatorsWithANumberHaveTheirValues) {
  const std::vector<ElementwiseValues> operands{{2, -1}};
  EXPECT_EQ(elementwise_values_of({"add_scalar", kElementwiseF32, operands, {{"value", 0.5}}}),
            (ElementwiseValues{2.5, -0.5}));
  EXPECT_EQ(elementwise_values_of({"mul_scalar", kElementwiseF32, operands, {{"value", 0.5}}}),
            (ElementwiseValues{1, -0.5}));
  EXPECT_EQ(elementwise_values_of({"max_scalar", kElementwiseF32, operands, {{"value", 0.5}}}),
            (ElementwiseValues{2, 0.5}));
  EXPECT_EQ(elementwise_values_of({"min_scalar", kElementwiseF32, operands, {{"value", 0.5}}}),
            (ElementwiseValues{0.5, -1}));
  EXPECT_EQ(elementwise_values_of({"pow_scalar", kElementwiseF32, operands, {{"value", 3.0}}}),
            (ElementwiseValues{8, -1}));
}

TEST(Elementwise, TheNumberIsRoundedToF32AsKernelsTakeIt) {
  EXPECT_EQ(elementwise_values_of({"mul_scalar", kElementwiseF32, {{1}}, {{"value", 0.1}}}),
            (ElementwiseValues{static_cast<double>(0.1f)}));
}

TEST(Elementwise, CompareHasSixRelations) {
  const std::vector<ElementwiseValues> operands{{1, 2, 3}, {2, 2, 2}};
  const auto holds = [&](const std::string& relation) {
    return elementwise_values_of({"compare", kElementwiseF32, operands, {{"relation", relation}}});
  };
  EXPECT_EQ(holds("eq"), (ElementwiseValues{0, 1, 0}));
  EXPECT_EQ(holds("ne"), (ElementwiseValues{1, 0, 1}));
  EXPECT_EQ(holds("lt"), (ElementwiseValues{1, 0, 0}));
  EXPECT_EQ(holds("le"), (ElementwiseValues{1, 1, 0}));
  EXPECT_EQ(holds("gt"), (ElementwiseValues{0, 0, 1}));
  EXPECT_EQ(holds("ge"), (ElementwiseValues{0, 1, 1}));
  EXPECT_THROW(holds("lte"), UserError);
}

TEST(Elementwise, SelectTakesFromAWhereTheConditionHolds) {
  EXPECT_EQ(elementwise_values_of({"select", kElementwiseI32, {{1, 0}, {5, 6}, {7, 8}}}),
            (ElementwiseValues{5, 8}));
}

TEST(Elementwise, CastRoundsTowardZeroAndAsksForNonzero) {
  EXPECT_EQ(elementwise_values_of({"cast", kElementwiseF32, {{2.9, -2.9, 0}}, {{"dtype", "i32"}}}),
            (ElementwiseValues{2, -2, 0}));
  EXPECT_EQ(elementwise_values_of({"cast", kElementwiseF32, {{2.9, -2.9, 0}}, {{"dtype", "bool"}}}),
            (ElementwiseValues{1, 1, 0}));
  EXPECT_EQ(elementwise_values_of({"cast", kBool, {{1, 0}}, {{"dtype", "f32"}}}),
            (ElementwiseValues{1, 0}));
  EXPECT_EQ(run({"cast", kElementwiseF32, {{1, 0}}, {{"dtype", "i32"}}}).type,
            (TensorType{kElementwiseI32, {2}}));
  EXPECT_THROW(run({"cast", kElementwiseF32, {{1}}, {{"dtype", "f64"}}}), UserError);
}

TEST(Elementwise, CastOfLargeIntegersMayRound) {
  const Program program =
      program_of({"cast", kElementwiseI32, {{0x1p24, 0x1p24 + 1}}, {{"dtype", "f32"}}});
  const OpView op = elementwise_view_of(program);
  std::vector<ReferenceTensor> outputs{{{kElementwiseF32, {2}}, {0, 0}}};
  const ReferenceCall call{op, {&program.state.at("a")}, outputs};
  find_operator("cast").reference(call);
  // 2^24 is exact; 2^24 + 1 is between two numbers that are 2 apart.
  EXPECT_EQ(find_operator("cast").tolerance(call, 0)[0], 0);
  EXPECT_NEAR(find_operator("cast").tolerance(call, 0)[1], 1, 0x1p-20);
}

/// "rule of KIND", two dims, on operands of the shape [4,6].
std::string rule_of(const std::string& kind, int operands, DType dtype = kElementwiseF32,
                    const Attributes& attributes = {}) {
  OpView op{kind, attributes, {}, {}};
  for (int i = 0; i < operands; ++i)
    op.inputs.push_back({kind == "select" && i == 0 ? kBool : dtype, {4, 6}});
  op.outputs = find_operator(kind).infer(op);
  return to_text(find_operator(kind).rule(op));
}

TEST(Elementwise, EveryDimIsAFactorThatAllOperandsShare) {
  const ShardingRule rule = find_operator("exp").rule(
      elementwise_view_of(program_of({"exp", kElementwiseF32, {{1, 2, 3}}})));
  ASSERT_EQ(rule.factors.size(), 1u);
  EXPECT_EQ(rule.factors[0].name, "d0");
  EXPECT_EQ(rule.factors[0].extent, 3);
  EXPECT_EQ(rule.factors[0].kind, FactorKind::kParallel);
}

TEST(Elementwise, PartialSumsPassWhereTheOperatorIsLinear) {
  EXPECT_EQ(rule_of("add", 2), "([d0, d1], [d0, d1]) -> ([d0, d1]) {linear: 0, 1}");
  EXPECT_EQ(rule_of("sub", 2), "([d0, d1], [d0, d1]) -> ([d0, d1]) {linear: 0, 1}");
  EXPECT_EQ(rule_of("mul", 2), "([d0, d1], [d0, d1]) -> ([d0, d1]) {linear: 0; 1}");
  EXPECT_EQ(rule_of("div", 2), "([d0, d1], [d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("max", 2), "([d0, d1], [d0, d1]) -> ([d0, d1])");
  EXPECT_EQ(rule_of("neg", 1), "([d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("exp", 1), "([d0, d1]) -> ([d0, d1])");
  EXPECT_EQ(rule_of("mul_scalar", 1, kElementwiseF32, {{"value", 2.0}}),
            "([d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("add_scalar", 1, kElementwiseF32, {{"value", 2.0}}),
            "([d0, d1]) -> ([d0, d1])");
  EXPECT_EQ(rule_of("stop_gradient", 1), "([d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("cast", 1, kElementwiseF32, {{"dtype", "f32"}}),
            "([d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("cast", 1, kElementwiseF32, {{"dtype", "bf16"}, {"parts", true}}),
            "([d0, d1]) -> ([d0, d1]) {linear: 0}");
  EXPECT_EQ(rule_of("cast", 1, kElementwiseF32, {{"dtype", "i32"}}), "([d0, d1]) -> ([d0, d1])");
  EXPECT_EQ(rule_of("select", 3), "([d0, d1], [d0, d1], [d0, d1]) -> ([d0, d1]) {linear: 1, 2}");
}

KernelCall kernel_of(const Case& test) {
  const Program program = program_of(test);
  return find_operator(test.kind).kernel(elementwise_view_of(program), {});
}

TEST(Elementwise, CallsTheKernelOfItsName) {
  EXPECT_EQ(kernel_of({"exp", kElementwiseF32, {{1}}}), (KernelCall{"unary.exp", {}, {}, ""}));
  EXPECT_EQ(kernel_of({"mod", kElementwiseI32, {{1}, {1}}}),
            (KernelCall{"binary.mod", {}, {}, ""}));
  EXPECT_EQ(kernel_of({"pow_scalar", kElementwiseF32, {{1}}, {{"value", 1.5}}}),
            (KernelCall{"scalar.pow", {}, {1.5}, ""}));
  EXPECT_EQ(kernel_of({"compare", kElementwiseI32, {{1}, {1}}, {{"relation", "ge"}}}),
            (KernelCall{"compare.ge", {}, {}, ""}));
  EXPECT_EQ(kernel_of({"stop_gradient", kElementwiseF32, {{1}}}), (KernelCall{"copy", {}, {}, ""}));
}

TEST(Elementwise, MovesEveryOperandOnce) {
  const Program program = program_of({"add", kElementwiseF32, {{1, 2, 3}, {4, 5, 6}}});
  const Work work = find_operator("add").work(elementwise_view_of(program));
  EXPECT_EQ(work.flops, Flops(3));
  EXPECT_EQ(work.bytes, Bytes(3 * 3 * 4));  // two operands and a result of 3 f32
}

// ---- gradients ----

/// Adds the gradients of the program's op for the incoming gradient "dy" of all ones.
std::vector<std::optional<ValueId>> differentiate(Program& program, std::vector<bool> wanted) {
  Builder builder(program.graph);
  const ValueId dy = builder.input("dy", program.graph.type(program.result));
  const Op op = program.graph.op(program.graph.value(program.result).producer);
  program.state["dy"] = {
      program.graph.type(dy),
      ElementwiseValues(static_cast<size_t>(element_count(program.graph.type(dy).shape)), 1)};
  const auto scope = builder.scope(op.name + ".grad");
  return find_operator(op.kind).gradient(builder, {program.graph, op, {dy}, std::move(wanted)});
}

/// Central differences of the reference by operand `operand`, for all elements at once: element i
/// of y depends only on elements i.
ElementwiseValues central_differences(const Case& test, size_t operand, double width) {
  Case up = test, down = test;
  for (double& value : up.operands[operand]) value += width;
  for (double& value : down.operands[operand]) value -= width;
  const ElementwiseValues above = elementwise_values_of(up), below = elementwise_values_of(down);
  ElementwiseValues slopes;
  for (size_t i = 0; i < above.size(); ++i) slopes.push_back((above[i] - below[i]) / (2 * width));
  return slopes;
}

void expect_gradient(const Case& test, size_t operand) {
  Program program = program_of(test);
  const auto gradients = differentiate(program, std::vector<bool>(test.operands.size(), true));
  ASSERT_TRUE(gradients.at(operand).has_value()) << test.kind;
  const ReferenceValues values = interpret(program.graph, program.state);
  const ElementwiseValues& found = values.at(program.graph.value(*gradients[operand]).name).values;
  const double width = 0x1p-18;
  const ElementwiseValues expected = central_differences(test, operand, width);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // Third derivatives of these functions at these points stay below 40 times 1 + |slope|: 40/6
    // width^2 < 2^-33. Rounding in double: values below 2^5, so 2^5 2^-52 / width = 2^-29. Numbers
    // that gradients hold in f32 are off by 2^-24 of the slope.
    const double tolerance = (0x1p-28 + 0x1p-23) * (1 + std::abs(expected[i]));
    EXPECT_NEAR(found[i], expected[i], tolerance)
        << test.kind << " by operand " << operand << ", element " << i;
  }
}

TEST(ElementwiseGradient, OfOneOperandIsTheSlope) {
  for (const char* kind : {"neg", "abs", "exp", "tanh", "logistic", "erf", "sin", "cos", "square"})
    expect_gradient({kind, kElementwiseF32, {{0.75, -1.25, 2, -0.125}}}, 0);
  for (const char* kind : {"log", "sqrt", "rsqrt"})
    expect_gradient({kind, kElementwiseF32, {{0.75, 1.25, 2, 3.5}}}, 0);
}

TEST(ElementwiseGradient, OfTwoOperandsIsTheSlopeByEach) {
  for (const char* kind : {"add", "sub", "mul", "div", "max", "min", "pow"})
    for (size_t operand : {0, 1})
      expect_gradient({kind, kElementwiseF32, {{0.75, 1.25, 2, 1.5}, {1.25, -0.75, 1.5, 2}}},
                      operand);
}

TEST(ElementwiseGradient, WithANumberIsTheSlope) {
  for (const char* kind : {"add_scalar", "mul_scalar", "max_scalar", "min_scalar", "pow_scalar"})
    expect_gradient({kind, kElementwiseF32, {{0.75, 1.5, 2}}, {{"value", 1.25}}}, 0);
}

TEST(ElementwiseGradient, OfSelectGoesToTheBranchTaken) {
  for (size_t operand : {1, 2})
    expect_gradient({"select", kElementwiseF32, {{1, 0, 1}, {1, 2, 3}, {4, 5, 6}}}, operand);
}

/// The gradients as the graph's text, without the lines of the forward program.
std::string gradient_text(const Case& test, std::vector<bool> wanted) {
  Program program = program_of(test);
  const auto gradients = differentiate(program, std::move(wanted));
  std::string text;
  for (int i = 1; i < static_cast<int>(program.graph.ops().size()); ++i)
    text += to_text(program.graph, OpId{i}) + "\n";
  for (const auto& gradient : gradients)
    text += (gradient ? program.graph.value(*gradient).name : "none") + " ";
  return text;
}

TEST(ElementwiseGradient, OfATieGoesToTheFirstOperand) {
  Program program = program_of({"max", kElementwiseF32, {{2}, {2}}});
  const auto gradients = differentiate(program, {true, true});
  const ReferenceValues values = interpret(program.graph, program.state);
  EXPECT_EQ(values.at(program.graph.value(*gradients[0]).name).values, (ElementwiseValues{1}));
  EXPECT_EQ(values.at(program.graph.value(*gradients[1]).name).values, (ElementwiseValues{0}));
}

TEST(ElementwiseGradient, OfAPowerByItsExponentIsZeroWhereTheLogarithmIsNot) {
  Program program = program_of({"pow", kElementwiseF32, {{0, -2}, {2, 2}}});
  const auto gradients = differentiate(program, {true, true});
  const ReferenceValues values = interpret(program.graph, program.state);
  EXPECT_EQ(values.at(program.graph.value(*gradients[0]).name).values,
            (ElementwiseValues{0, -4}));  // 2 x
  EXPECT_EQ(values.at(program.graph.value(*gradients[1]).name).values, (ElementwiseValues{0, 0}));
}

TEST(ElementwiseGradient, PassesASumOnWithoutAnOp) {
  EXPECT_EQ(gradient_text({"add", kElementwiseF32, {{1}, {2}}}, {true, true}), "dy dy ");
}

TEST(ElementwiseGradient, IsBuiltOnlyWhereItIsWanted) {
  EXPECT_EQ(gradient_text({"mul", kElementwiseF32, {{1}, {2}}}, {false, true}),
            "y.grad.b = mul(dy, a): f32[1]\n"
            "none y.grad.b ");
  EXPECT_EQ(gradient_text({"add", kElementwiseF32, {{1}, {2}}}, {false, true}), "none dy ");
  EXPECT_EQ(gradient_text({"exp", kElementwiseF32, {{1}}}, {false}), "none ");
}

TEST(ElementwiseGradient, UsesTheResultWhereThatIsCheaper) {
  EXPECT_EQ(gradient_text({"exp", kElementwiseF32, {{1}}}, {true}),
            "y.grad.x = mul(dy, y): f32[1]\n"
            "y.grad.x ");
  EXPECT_EQ(gradient_text({"sqrt", kElementwiseF32, {{1}}}, {true}),
            "y.grad.mul_scalar = mul_scalar(dy) {value=0.5}: f32[1]\n"
            "y.grad.x = div(y.grad.mul_scalar, y): f32[1]\n"
            "y.grad.x ");
}

TEST(ElementwiseGradient, StopsAtIntegers) {
  EXPECT_EQ(gradient_text({"add", kElementwiseI32, {{1}, {2}}}, {true, true}), "none none ");
  EXPECT_EQ(gradient_text({"cast", kElementwiseF32, {{1}}, {{"dtype", "i32"}}}, {true}), "none ");
  EXPECT_EQ(gradient_text({"cast", kElementwiseF32, {{1}}, {{"dtype", "f32"}}}, {true}), "dy ");
}

}  // namespace
}  // namespace tessera
