#include "ir/ops/interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/initializer.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

ReferenceTensor f32(Shape shape, std::vector<double> values) {
  return {{DType::kF32, shape}, std::move(values)};
}

/// One step of: error = w x - t; w is updated by x error at rate 0.5.
Graph least_squares() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {2}}),
                t = builder.input("t", {DType::kF32, {2}});
  const ValueId w = builder.variable("w", {DType::kF32, {2}}, Initializer::constant(1));
  const ValueId error = builder.sub(builder.mul(w, x), t, "error");
  graph.set_next(w, builder.sub(w, builder.mul_scalar(builder.mul(x, error), 0.5), "moved"));
  return graph;
}

TEST(Interpreter, ComputesEveryValueOfAStep) {
  const ReferenceValues values =
      interpret(least_squares(),
                {{"x", f32({2}, {2, -1})}, {"t", f32({2}, {3, 4})}, {"w", f32({2}, {1, 5})}});
  EXPECT_EQ(values.at("error").values, (std::vector<double>{-1, -9}));  // 1*2 - 3, 5*-1 - 4
  EXPECT_EQ(values.at("moved").values,
            (std::vector<double>{2, 0.5}));  // 1 - 0.5*2*-1, 5 - 0.5*-1*-9
}

TEST(Interpreter, CarriesVariablesToTheNextStep) {
  Graph graph = least_squares();
  graph.add_variable("fixed", {DType::kF32, {}}, Initializer::constant(3));
  ReferenceValues state = initial_variables(graph, 1);
  EXPECT_EQ(state.at("w").values, (std::vector<double>{1, 1}));
  state["x"] = f32({2}, {2, -1});
  state["t"] = f32({2}, {3, 4});
  const ReferenceValues next = next_variables(graph, interpret(graph, state));
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next.at("w").values,
            (std::vector<double>{2, -1.5}));  // 1 - 0.5*2*(2-3), 1 - 0.5*-1*(-1-4)
  EXPECT_EQ(next.at("fixed").values, (std::vector<double>{3}));
}

/// y = x - 1; above = y > 0; first, places = the largest of y; kept = max_pool_grad(y, dy).
Graph decisions() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {1, 1, 2}}),
                dy = builder.input("dy", {DType::kF32, {1, 1, 1}});
  const ValueId y = builder.add_scalar(x, -1, "y");
  builder.compare("gt", y, builder.constant(builder.type(y), 0, "zero"), "above");
  builder.op("top_k", {y}, {{"dim", 2}, {"k", 1}}, "first");
  builder.op1("max_pool_grad", {y, dy},
              {{"window", std::vector<int64_t>{2}},
               {"stride", std::vector<int64_t>{1}},
               {"low", std::vector<int64_t>{0}},
               {"high", std::vector<int64_t>{0}}},
              "kept");
  return graph;
}

TEST(Interpreter, DecidesOnTheOperandsOfAnotherRun) {
  const ReferenceValues state{{"x", f32({1, 1, 2}, {3, 2.5})}, {"dy", f32({1, 1, 1}, {7})}};
  const ReferenceValues own = interpret(decisions(), state);
  EXPECT_EQ(own.at("above").values, (std::vector<double>{1, 1}));
  EXPECT_EQ(own.at("first:1").values, (std::vector<double>{0}));
  EXPECT_EQ(own.at("kept").values, (std::vector<double>{7, 0}));
  const ReferenceValues given{{"y", f32({1, 1, 2}, {-1, 1.5})}, {"zero", f32({1, 1, 2}, {0, 0})}};
  const ReferenceValues values = interpret(decisions(), state, {.decided_on = &given});
  EXPECT_EQ(values.at("y").values, (std::vector<double>{2, 1.5}));  // its own
  EXPECT_EQ(values.at("above").values, (std::vector<double>{0, 1}));
  EXPECT_EQ(values.at("first").values, (std::vector<double>{2}));  // no decision
  EXPECT_EQ(values.at("first:1").values, (std::vector<double>{1}));
  EXPECT_EQ(values.at("kept").values, (std::vector<double>{0, 7}));  // of its own dy
}

TEST(Interpreter, DecidesByItselfWhereAnOperandIsNotGiven) {
  const ReferenceValues state{{"x", f32({1, 1, 2}, {3, 2.5})}, {"dy", f32({1, 1, 1}, {7})}};
  const ReferenceValues given{{"y", f32({1, 1, 2}, {-1, 1.5})}};
  const ReferenceValues values = interpret(decisions(), state, {.decided_on = &given});
  EXPECT_EQ(values.at("above").values, (std::vector<double>{1, 1}));  // zero is not given
  EXPECT_EQ(values.at("first:1").values, (std::vector<double>{1}));
}

TEST(Interpreter, ShiftsNamedValuesInOneDirection) {
  const Graph graph = least_squares();
  const ReferenceValues state{
      {"x", f32({2}, {2, -1})}, {"t", f32({2}, {3, 4})}, {"w", f32({2}, {1, 5})}};
  const std::map<std::string, double> share{{"error", 0.25}};  // 2*1 - 3 = -1, -1*5 - 4 = -9
  const ReferenceValues away = interpret(graph, state, {.perturb = 1, .common_share = &share});
  EXPECT_NEAR(away.at("error").values[0], -1.25, 1e-5);
  EXPECT_NEAR(away.at("error").values[1], -11.25, 1e-5);
  const ReferenceValues up =
      interpret(graph, state, {.perturb = 1, .common_share = &share, .away_from_zero = false});
  EXPECT_NEAR(up.at("error").values[0], -0.75, 1e-5);
  EXPECT_NEAR(up.at("error").values[1], -6.75, 1e-5);
}

TEST(Interpreter, RefusesAMissingInput) {
  try {
    interpret(least_squares(), {{"x", f32({2}, {2, -1})}, {"w", f32({2}, {1, 5})}});
    FAIL() << "the missing input was not noticed";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "input 't' f32[2] has no value\n"
                 "  why: a step reads every input and every variable of the graph\n"
                 "  fix: give 't' a value before the step");
    EXPECT_EQ(error.exit_code(), ExitCode::kMissingInput);
  }
}

TEST(Interpreter, RefusesAnInputOfAnotherType) {
  const ReferenceValues state{
      {"x", f32({1}, {2})}, {"t", f32({2}, {3, 4})}, {"w", f32({2}, {1, 5})}};
  EXPECT_THROW(interpret(least_squares(), state), InternalError);
}

TEST(Interpreter, PerturbsEachResultByItsToleranceInBothDirections) {
  Graph graph;
  Builder builder(graph);
  builder.unary("square", builder.input("x", {DType::kF32, {256}}), "y");
  builder.unary("neg", *graph.find_value("x"), "exact");
  const ReferenceValues state{{"x", f32({256}, std::vector<double>(256, 3))}};
  const ReferenceValues values = interpret(graph, state, {.perturb = 1});
  int up = 0;
  for (double y : values.at("y").values) {
    // It moves by half to all of one rounding of 9 (and of the smallest normal number, which is
    // negligible).
    EXPECT_GE(std::abs(y - 9), 0.5 * 9 * 0x1p-24);
    EXPECT_LE(std::abs(y - 9), 9 * 0x1p-24 + 0x1p-49);
    up += y > 9;
  }
  // 256 fair signs have 128 ups with deviation 8. Six deviations are allowed.
  EXPECT_NEAR(up, 128, 48);
  EXPECT_EQ(values.at("exact").values, std::vector<double>(256, -3));
  EXPECT_NE(interpret(graph, state, {.perturb = 2}).at("y").values, values.at("y").values);
  EXPECT_EQ(interpret(graph, state, {.perturb = 1}).at("y").values, values.at("y").values);
}

TEST(Interpreter, PerturbsElementsAlikeAlongSomeDims) {
  Graph graph;
  Builder builder(graph);
  builder.unary("square", builder.input("x", {DType::kF32, {4, 8}}), "y");
  const ReferenceValues state{{"x", f32({4, 8}, std::vector<double>(32, 3))}};
  // The seed chooses the dims along which elements change alike: each of the four cases must occur,
  // and nothing else.
  std::set<std::pair<bool, bool>> ways;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    const std::vector<double> y =
        interpret(graph, state, {.perturb = seed, .alike = true}).at("y").values;
    bool along_rows = true, along_columns = true;
    for (size_t i = 0; i < 32; ++i) {
      along_rows = along_rows && y[i] == y[i % 8];
      along_columns = along_columns && y[i] == y[i / 8 * 8];
      EXPECT_NE(y[i], 9);
    }
    ways.insert({along_rows, along_columns});
  }
  EXPECT_EQ(ways.size(), 4U);
}

/// root = sqrt(x x), of the type of x.
Graph root_of_square(DType dtype) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {dtype, {256}});
  builder.unary("sqrt", builder.unary("square", x, "square"), "root");
  return graph;
}

std::vector<double> perturbed_root(DType dtype, double x, const std::string& value) {
  const ReferenceValues state{{"x", {{dtype, {256}}, std::vector<double>(256, x)}}};
  return interpret(root_of_square(dtype), state, {.perturb = 1}).at(value).values;
}

// Kernels may take what is below the least normal number of f32, 2^-126, as zero.
TEST(Interpreter, LosesWhatUnderflowsWithItsRoot) {
  const std::vector<double> zeros(256, 0);
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const double x : {0.0, 1e-31, -0x1p-64}) {
      EXPECT_EQ(perturbed_root(dtype, x, "square"), zeros);
      EXPECT_EQ(perturbed_root(dtype, x, "root"), zeros);
    }
  EXPECT_EQ(perturbed_root(DType::kF16, 0x1p-14, "root"), zeros);
}

TEST(Interpreter, PerturbsSmallNumbersThatDoNotUnderflow) {
  const double x = 0x1p-60;
  for (double square : perturbed_root(DType::kF32, x, "square")) {
    EXPECT_NE(square, x * x);
    EXPECT_NEAR(square, x * x, 0x1p-126 + 0x1p-143);
  }
}

// The second terms cancel the first: what is left is rounding, not underflow.
TEST(Interpreter, PerturbsAZeroThatIsASum) {
  Graph graph;
  Builder builder(graph);
  builder.reduce_sum(builder.input("x", {DType::kF32, {2}}), {0}, "sum");
  const ReferenceValues values = interpret(graph, {{"x", f32({2}, {3, -3})}}, {.perturb = 1});
  EXPECT_NE(values.at("sum").values.front(), 0);
}

TEST(Interpreter, SaysWhatARoundedRunMayBeOff) {
  Graph graph;
  Builder builder(graph);
  builder.unary("square", builder.input("x", {DType::kF32, {1}}), "y");
  std::map<std::string, double> tolerances;
  interpret(graph, {{"x", f32({1}, {3})}}, {.tolerances = &tolerances, .round = true});
  EXPECT_GE(tolerances.at("y"), 9 * 0x1p-24);
}

TEST(Interpreter, NeverPerturbsIntegers) {
  Graph graph;
  Builder builder(graph);
  const ValueId ids = builder.input("ids", {DType::kI32, {2}});
  builder.add(ids, ids, "twice");
  const ReferenceValues values =
      interpret(graph, {{"ids", {{DType::kI32, {2}}, {7, 9}}}}, {.perturb = 5});
  EXPECT_EQ(values.at("twice").values, (std::vector<double>{14, 18}));
}

TEST(Interpreter, RoundingMakesEqualWhatF32CannotTellApart) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {2}});
  const ValueId y = builder.add_scalar(x, 1, "y");
  builder.reduce(ReduceOp::kMax, y, {0}, "most");
  // 1 and 1 + 2^-30 are one number in f32.
  const ReferenceValues state{{"x", {{DType::kF32, {2}}, {0, 0x1p-30}}}};
  EXPECT_EQ(interpret(graph, state).at("most").values, std::vector<double>{1 + 0x1p-30});
  EXPECT_EQ(interpret(graph, state, {.round = true}).at("y").values, (std::vector<double>{1, 1}));
}

TEST(InitialValue, OfABoxEqualsTheSameElementsOfTheWhole) {
  const TensorType type{DType::kF32, {3, 5, 2}};
  for (const Initializer& initializer :
       {Initializer::normal(0.5, 2), Initializer::uniform(-1, 3), Initializer::constant(0.1)}) {
    const Tensor whole = initial_value("w", type, initializer, 11, whole_box(type.shape));
    const Tensor part = initial_value("w", type, initializer, 11, {{{1, 3}, {2, 5}, {1, 2}}});
    ASSERT_EQ(part.shape(), (Shape{2, 3, 1}));
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        EXPECT_EQ(part.values<float>()[i * 3 + j],
                  whole.values<float>()[(i + 1) * 10 + (j + 2) * 2 + 1]);
  }
}

TEST(InitialValue, OfAnEmptyBoxIsEmpty) {
  const Tensor part =
      initial_value("w", {DType::kF32, {4, 2}}, Initializer::normal(0, 1), 1, {{{4, 4}, {0, 2}}});
  EXPECT_EQ(part.shape(), (Shape{0, 2}));
}

TEST(InitialValue, RefusesABoxThatLeavesTheTensor) {
  EXPECT_THROW(initial_value("w", {DType::kF32, {4}}, Initializer::constant(1), 1, {{{2, 5}}}),
               InternalError);
}

TEST(InitialValue, AConstantFillsEveryElementType) {
  for (const DTypeTraits& row : kDTypes) {
    const Tensor w =
        initial_value("w", {row.dtype, {3}}, Initializer::constant(1), 1, whole_box({3}));
    EXPECT_EQ(to_reference(w).values, (std::vector<double>{1, 1, 1})) << row.text;
  }
}

TEST(InitialValue, DependsOnTheSeedAndTheName) {
  const TensorType type{DType::kF32, {8}};
  const auto draw = [&](const std::string& name, uint64_t seed) {
    return to_reference(
               initial_value(name, type, Initializer::normal(0, 1), seed, whole_box(type.shape)))
        .values;
  };
  EXPECT_EQ(draw("a", 1), draw("a", 1));
  EXPECT_NE(draw("a", 1), draw("b", 1));
  EXPECT_NE(draw("a", 1), draw("a", 2));
}

TEST(InitialValue, HasTheMeanAndDeviationAskedFor) {
  constexpr int kCount = 10000;
  const Tensor tensor = initial_value("w", {DType::kF32, {kCount}}, Initializer::normal(3, 0.5), 2,
                                      whole_box({kCount}));
  double sum = 0, squares = 0;
  for (float value : tensor.values<float>()) {
    sum += value - 3;
    squares += (value - 3) * (value - 3);
  }
  // The mean of n samples deviates by 0.5 / sqrt(n), their mean square by 0.25 sqrt(2 / n): five
  // deviations of each.
  EXPECT_NEAR(sum / kCount, 0, 5 * 0.5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 0.25, 5 * 0.25 * std::sqrt(2.0 / kCount));
}

TEST(InitialValue, UniformStaysBetweenItsEnds) {
  const Tensor tensor =
      initial_value("w", {DType::kF32, {1000}}, Initializer::uniform(-2, 6), 2, whole_box({1000}));
  const auto [low, high] =
      std::minmax_element(tensor.values<float>().begin(), tensor.values<float>().end());
  EXPECT_GE(*low, -2);
  EXPECT_LE(*high, 6);
  // 1000 samples leave a gap of 8 x 2% at either end with chance 0.98^1000 < 2e-9.
  EXPECT_LT(*low, -2 + 0.16);
  EXPECT_GT(*high, 6 - 0.16);
}

TEST(InitialValue, FillsIntegersWithConstants) {
  const Tensor tensor =
      initial_value("count", {DType::kI32, {2}}, Initializer::constant(4), 1, whole_box({2}));
  EXPECT_EQ(tensor.values<int32_t>()[1], 4);
}

TEST(ReferenceTensor, RoundsToTheElementTypeOnTheWayBack) {
  const Tensor f = from_reference({{DType::kF32, {2}}, {0.1, 1 + 0x1p-25}});
  EXPECT_EQ(f.values<float>()[0], 0.1f);
  EXPECT_EQ(f.values<float>()[1], 1.0f);
  const Tensor i = from_reference({{DType::kI32, {2}}, {-3, 1e12}});
  EXPECT_EQ(i.values<int32_t>()[0], -3);
  EXPECT_EQ(i.values<int32_t>()[1], 2147483647);
  const Tensor b = from_reference({{DType::kBool, {2}}, {0, 5}});
  EXPECT_EQ(b.values<uint8_t>()[0], 0);
  EXPECT_EQ(b.values<uint8_t>()[1], 1);
}

TEST(ReferenceTensor, EveryElementTypeRoundsToItsNearestNumber) {
  const double near = 1 + 0x1p-30;
  for (const auto& [dtype, rounded] : std::vector<std::pair<DType, std::vector<double>>>{
           {DType::kF32, {1, -2.75, 300, 70000}},
           {DType::kF64, {near, -2.75, 300, 70000}},
           {DType::kI64, {1, -3, 300, 70000}},
           {DType::kI32, {1, -3, 300, 70000}},
           {DType::kI8, {1, -3, 127, 127}},
           {DType::kU8, {1, 0, 255, 255}},
           {DType::kBool, {1, 1, 1, 1}},
           {DType::kF16, {1, -2.75, 300, std::numeric_limits<double>::infinity()}},
           {DType::kBF16, {1, -2.75, 300, 70144}}}) {
    const TensorType type{dtype, {4}};
    const ReferenceTensor back = to_reference(from_reference({type, {near, -2.75, 300, 70000}}));
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(back.values, rounded) << to_text(dtype);
  }
}

TEST(ReferenceTensor, HoldsWhatTheTensorHeld) {
  const ReferenceTensor reference = to_reference(Tensor::of<int32_t>({2}, {-7, 8}));
  EXPECT_EQ(reference.type, (TensorType{DType::kI32, {2}}));
  EXPECT_EQ(reference.values, (std::vector<double>{-7, 8}));
}

}  // namespace
}  // namespace tessera
