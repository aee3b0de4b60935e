#include "ir/autodiff/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::StartsWith;

constexpr std::array<double, 3> kRates = {0.125, 0.0625, 0.25};

/// Three steps of some thirty operations each, in doubles, on numbers below 8.
constexpr double kRounding = 3 * 30 * 8 * 0x1p-53;

/// The same, when scalar attributes that are not exact in f32 are rounded to it: 1 - momentum; or 1
/// - beta, log(beta) twice for each of two betas, and epsilon.
double rounding_of(OptimizerKind kind) {
  const int scalars = kind == OptimizerKind::kSgd ? 0 : kind == OptimizerKind::kMomentum ? 1 : 7;
  return kRounding + 3 * scalars * 8 * 0x1p-24;
}

/// loss = sum(a^2) / 2 + sum(target * b), so that the gradient of the matrix a is a, and that of
/// the vector b is the target.
Graph quadratic(const OptimizerConfig& config, const std::vector<ParameterGroup>& groups = {}) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.variable("a", f32({1, 2}), Initializer::constant(0));
  const ValueId b = builder.variable("layer.b", f32({2}), Initializer::constant(0));
  const ValueId target = builder.input("target", f32({2}));
  const ValueId square =
      builder.mul_scalar(builder.reduce_sum(builder.unary("square", a), {0, 1}), 0.5);
  const ValueId loss = builder.add(square, builder.reduce_sum(builder.mul(target, b), {0}), "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, config, groups);
  verify(graph);
  return graph;
}

/// Inputs of step `step`: the gradient of b differs from step to step.
ReferenceValues with_inputs(ReferenceValues state, size_t step) {
  state["target"] = {f32({2}), {1.0 + static_cast<double>(step), -0.5}};
  state["learning_rate"] = {f32({}), {kRates[step]}};
  state["step"] = {{DType::kI32, {}}, {static_cast<double>(step)}};
  return state;
}

ReferenceValues start(const Graph& graph) {
  ReferenceValues state = initial_variables(graph, 0);
  state["a"].values = {2, -3};
  state["layer.b"].values = {1, 0.25};
  return state;
}

ReferenceValues train(const Graph& graph) {
  ReferenceValues state = start(graph);
  for (size_t step = 0; step < kRates.size(); ++step)
    state = next_variables(graph, interpret(graph, with_inputs(state, step)));
  return state;
}

/// One number under training, by the formulas of the literature.
struct Textbook {
  double p = 0, buffer = 0, mean = 0, mean_square = 0;

  void step(const OptimizerConfig& c, double g, double rate, double t, double decay) {
    if (c.kind == OptimizerKind::kAdamW)
      p -= rate * decay * p;
    else
      g += decay * p;
    buffer = c.momentum * buffer + g;
    mean = c.beta1 * mean + (1 - c.beta1) * g;
    mean_square = c.beta2 * mean_square + (1 - c.beta2) * g * g;
    const double corrected_mean = mean / (1 - std::pow(c.beta1, t));
    const double corrected_square = mean_square / (1 - std::pow(c.beta2, t));
    switch (c.kind) {
      case OptimizerKind::kSgd: p -= rate * g; break;
      case OptimizerKind::kMomentum: p -= rate * buffer; break;
      default: p -= rate * corrected_mean / (std::sqrt(corrected_square) + c.epsilon);
    }
  }
};

class EveryOptimizer : public testing::TestWithParam<OptimizerConfig> {};

TEST_P(EveryOptimizer, MakesTheTextbookStep) {
  const OptimizerConfig& config = GetParam();
  const ReferenceValues state = train(quadratic(config));

  std::array<Textbook, 2> a{{{.p = 2}, {.p = -3}}}, b{{{.p = 1}, {.p = 0.25}}};
  for (size_t step = 0; step < kRates.size(); ++step) {
    const std::array<double, 2> gradient_of_b = {1.0 + static_cast<double>(step), -0.5};
    for (size_t i = 0; i < 2; ++i) {
      a[i].step(config, a[i].p, kRates[step], static_cast<double>(step + 1), config.weight_decay);
      b[i].step(config, gradient_of_b[i], kRates[step], static_cast<double>(step + 1),
                0);  // a vector does not decay
    }
  }
  const double rounding = rounding_of(config.kind);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(state.at("a").values[i], a[i].p, rounding);
    EXPECT_NEAR(state.at("layer.b").values[i], b[i].p, rounding);
    if (config.kind == OptimizerKind::kMomentum) {
      EXPECT_NEAR(state.at("a.momentum").values[i], a[i].buffer, rounding);
    } else if (config.kind != OptimizerKind::kSgd) {
      EXPECT_NEAR(state.at("a.exp_avg").values[i], a[i].mean, rounding);
      EXPECT_NEAR(state.at("a.exp_avg_sq").values[i], a[i].mean_square, rounding);
    }
  }
}

// The rate of a is halved, and b, which is a vector, decays by 0.5 because its group says so.
TEST_P(EveryOptimizer, MakesTheTextbookStepWithTheRateAndTheDecayOfEachGroup) {
  const OptimizerConfig& config = GetParam();
  const ReferenceValues state = train(quadratic(
      config, {{.pattern = "a", .rate = 0.5}, {.pattern = "layer.*", .weight_decay = 0.5}}));

  Textbook a{.p = 2}, b{.p = 1};
  for (size_t step = 0; step < kRates.size(); ++step) {
    const auto number = static_cast<double>(step + 1);
    a.step(config, a.p, 0.5 * kRates[step], number, config.weight_decay);
    b.step(config, number, kRates[step], number, 0.5);  // the target is 1, 2, 3
  }
  EXPECT_NEAR(state.at("a").values[0], a.p, rounding_of(config.kind));
  EXPECT_NEAR(state.at("layer.b").values[0], b.p, rounding_of(config.kind));
}

TEST_P(EveryOptimizer, EndsEachUpdateInAnElementWiseOpOnTheVariableItself) {
  const Graph graph = quadratic(GetParam());
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    ASSERT_TRUE(variable.next) << name;
    const Op& last = graph.op(graph.value(*variable.next).producer);
    EXPECT_THAT(last.kind, AnyOf("add", "sub")) << name;
    EXPECT_EQ(last.inputs[0], variable.value) << name;
    // No op reads the old value after the new one is made.
    for (OpId user : graph.value(variable.value).users)
      EXPECT_LE(user, graph.value(*variable.next).producer) << name;
  }
}

TEST_P(EveryOptimizer, NamesItsOpsAndStateAfterTheParameter) {
  const Graph graph = quadratic(GetParam());
  const std::string kind(to_text(GetParam().kind));
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kOptimizer) continue;
    EXPECT_EQ(op.origin.derivation, "optimizer") << op.name;
    if (op.origin.source.empty()) {
      EXPECT_THAT(op.name, AnyOf(StartsWith("optimizer."), StartsWith("clip.")));
    } else {
      EXPECT_THAT(op.name, AnyOf(StartsWith(op.origin.source + "." + kind + "."),
                                 StartsWith("clip." + op.origin.source)));
    }
  }
  EXPECT_EQ(graph.value(*graph.variable_of(*graph.find_value("layer.b"))->next).name,
            "layer.b." + kind + ".next");
  for (const Variable& variable : graph.variables()) {
    if (variable.trainable) continue;
    const ValueId parameter = *graph.find_value(variable.origin.source);
    EXPECT_EQ(variable.origin.derivation, "optimizer");
    EXPECT_THAT(graph.value(variable.value).name, StartsWith(variable.origin.source + "."));
    EXPECT_EQ(graph.type(variable.value), graph.type(parameter));
    EXPECT_EQ(variable.initializer, Initializer::constant(0));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizer, EveryOptimizer,
    testing::Values(
        OptimizerConfig{.kind = OptimizerKind::kSgd},
        OptimizerConfig{.kind = OptimizerKind::kSgd, .weight_decay = 0.25},
        OptimizerConfig{.kind = OptimizerKind::kMomentum},
        OptimizerConfig{.kind = OptimizerKind::kMomentum, .momentum = 0.5, .weight_decay = 0.25},
        OptimizerConfig{.kind = OptimizerKind::kAdam},
        OptimizerConfig{
            .kind = OptimizerKind::kAdam, .beta1 = 0.5, .epsilon = 0.5, .weight_decay = 0.25},
        OptimizerConfig{.kind = OptimizerKind::kAdamW},
        OptimizerConfig{.kind = OptimizerKind::kAdamW, .epsilon = 0.5, .weight_decay = 0.25}),
    [](const auto& config) {
      return std::string(to_text(config.param.kind)) + "_" + std::to_string(config.index);
    });

std::vector<std::string> variable_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    names.push_back(graph.value(variable.value).name);
  return names;
}

TEST(Optimizer, KeepsOnlyTheStateThatItNeeds) {
  EXPECT_THAT(variable_names(quadratic({.kind = OptimizerKind::kSgd})),
              ElementsAre("a", "layer.b"));
  EXPECT_THAT(variable_names(quadratic({.kind = OptimizerKind::kMomentum})),
              ElementsAre("a", "layer.b", "a.momentum", "layer.b.momentum"));
  EXPECT_THAT(variable_names(quadratic({.kind = OptimizerKind::kAdamW})),
              ElementsAre("a", "layer.b", "a.exp_avg", "a.exp_avg_sq", "layer.b.exp_avg",
                          "layer.b.exp_avg_sq"));
}

TEST(Optimizer, ClipScalesAllGradientsByTheGlobalNorm) {
  const Graph graph = quadratic({.kind = OptimizerKind::kSgd, .clip_norm = 1.5});
  const ReferenceValues values = interpret(graph, with_inputs(start(graph), 0));
  // Gradients a: (2, -3), b: (1, -0.5); norm^2 = 4 + 9 + 1 + 0.25 = 14.25.
  const double norm = std::sqrt(14.25);
  EXPECT_NEAR(values.at(graph.value(graph.output("grad_norm")).name).values[0], norm, kRounding);
  const double scale = 1.5 / (norm + 1e-6);
  const ReferenceValues next = next_variables(graph, values);
  EXPECT_NEAR(next.at("a").values[0], 2 - 0.125 * scale * 2, kRounding);
  EXPECT_NEAR(next.at("a").values[1], -3 + 0.125 * scale * 3, kRounding);
  EXPECT_NEAR(next.at("layer.b").values[0], 1 - 0.125 * scale * 1, kRounding);
  EXPECT_NEAR(next.at("layer.b").values[1], 0.25 + 0.125 * scale * 0.5, kRounding);
}

TEST(Optimizer, ClipLeavesSmallGradientsAlone) {
  // Above sqrt(14.25) = 3.77.
  const Graph graph = quadratic({.kind = OptimizerKind::kSgd, .clip_norm = 4});
  const ReferenceValues next =
      next_variables(graph, interpret(graph, with_inputs(start(graph), 0)));
  EXPECT_THAT(next.at("a").values, ElementsAre(1.75, -2.625));  // 2 - 0.125 * 2, -3 + 0.125 * 3
  EXPECT_THAT(next.at("layer.b").values, ElementsAre(0.875, 0.3125));
}

TEST(Optimizer, ClipOfGradientsThatAreAllZeroDividesByNoZero) {
  const Graph graph = quadratic({.kind = OptimizerKind::kSgd, .clip_norm = 1});
  ReferenceValues state = with_inputs(start(graph), 0);
  state["a"].values = {0, 0};
  state["target"].values = {0, 0};
  const ReferenceValues next = next_variables(graph, interpret(graph, state));
  EXPECT_THAT(next.at("a").values, ElementsAre(0, 0));
  EXPECT_THAT(next.at("layer.b").values, ElementsAre(1, 0.25));
}

TEST(Optimizer, ClipComesBeforeTheWeightDecay) {
  const Graph graph =
      quadratic({.kind = OptimizerKind::kSgd, .weight_decay = 0.25, .clip_norm = 1.5});
  const ReferenceValues next =
      next_variables(graph, interpret(graph, with_inputs(start(graph), 0)));
  const double scale = 1.5 / (std::sqrt(14.25) + 1e-6);
  EXPECT_NEAR(next.at("a").values[0], 2 - 0.125 * (scale * 2 + 0.25 * 2), kRounding);
}

TEST(Optimizer, TheBiasCorrectionsAreComputedOnceForAllParameters) {
  const Graph graph = quadratic({.kind = OptimizerKind::kAdamW});
  std::set<std::string> powers;
  for (const Op& op : graph.ops())
    if (op.kind == "exp") powers.insert(op.name);
  EXPECT_THAT(powers, ElementsAre("optimizer.correction1.power", "optimizer.correction2.power"));
}

TEST(Optimizer, AddsTheInputsThatAreMissingAndReadsThoseThatAreThere) {
  Graph graph;
  Builder builder(graph);
  const ValueId step = builder.input("step", {DType::kI32, {}});
  const ValueId w = builder.variable("w", f32({2}), Initializer::constant(0));
  add_training(builder, builder.reduce_sum(w, {0}, "loss"), {.kind = OptimizerKind::kAdam});
  EXPECT_THAT(graph.inputs(), ElementsAre(step, *graph.find_value("learning_rate")));
  EXPECT_EQ(graph.type(*graph.find_value("learning_rate")), f32({}));
  EXPECT_FALSE(graph.value(step).users.empty());
}

TEST(Optimizer, AGroupWithARateOfZeroKeepsItsParameters) {
  const Graph graph = quadratic({.kind = OptimizerKind::kAdamW, .weight_decay = 0.25},
                                {{.pattern = "layer.*", .rate = 0}});
  const ReferenceValues next =
      next_variables(graph, interpret(graph, with_inputs(start(graph), 0)));
  EXPECT_THAT(next.at("layer.b").values, ElementsAre(1, 0.25));
  EXPECT_LT(next.at("a").values[0], 2);
}

TEST(Optimizer, AParameterBelongsToTheFirstGroupThatMatches) {
  const Graph graph = quadratic({.kind = OptimizerKind::kSgd},
                                {{.pattern = "layer.b", .rate = 2}, {.pattern = "*", .rate = 0}});
  const ReferenceValues next =
      next_variables(graph, interpret(graph, with_inputs(start(graph), 0)));
  EXPECT_THAT(next.at("layer.b").values, ElementsAre(0.75, 0.375));  // 1 - 2/8 1, 0.25 + 2/8 0.5
  EXPECT_THAT(next.at("a").values, ElementsAre(2, -3));
}

TEST(Optimizer, GroupsThatSayNothingNewChangeNoOp) {
  const OptimizerConfig config{.kind = OptimizerKind::kAdamW, .weight_decay = 0.25};
  EXPECT_EQ(to_text(quadratic(config, {{.pattern = "*"}})), to_text(quadratic(config)));
}

std::string refusal_of(const std::vector<ParameterGroup>& groups) {
  try {
    quadratic({}, groups);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(Optimizer, AGroupWithoutParametersIsRefused) {
  EXPECT_EQ(refusal_of({{.pattern = "*.bias"}}),
            "the parameter group '*.bias' has no parameter\n"
            "  why: no trainable variable has a name that matches; there is 'a'\n"
            "  fix: correct the pattern, remove the group, or put it before the groups that match "
            "more");
  EXPECT_THAT(refusal_of({{.pattern = "*"}, {.pattern = "*.b"}}),
              testing::HasSubstr("an earlier group has all that match, such as 'layer.b'"));
  EXPECT_THAT(refusal_of({{.pattern = "a", .rate = -1}}),
              testing::HasSubstr("both are numbers of at least 0"));
}

TEST(Optimizer, AParameterThatTheLossDoesNotReadGetsItsDecayAlone) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", f32({2}), Initializer::constant(0));
  builder.variable("unused", f32({1, 1}), Initializer::constant(4));
  builder.variable("fixed", f32({1}), Initializer::constant(4), false);
  add_training(builder, builder.reduce_sum(w, {0}, "loss"),
               {.kind = OptimizerKind::kAdamW, .weight_decay = 0.5});
  ReferenceValues state = initial_variables(graph, 0);
  state["learning_rate"] = {f32({}), {0.25}};
  state["step"] = {{DType::kI32, {}}, {0}};
  const ReferenceValues next = next_variables(graph, interpret(graph, state));
  EXPECT_THAT(next.at("unused").values, ElementsAre(3.5));  // 4 - 0.25 * 0.5 * 4
  EXPECT_EQ(graph.variable_of(*graph.find_value("fixed"))->next, std::nullopt);
}

// ---- lamb ----

/// One tensor under LAMB, by the formulas of You et al., with scalars as they are in f32.
struct TextbookLamb {
  std::vector<double> p, mean, mean_square;

  explicit TextbookLamb(std::vector<double> start)
      : p(std::move(start)), mean(p.size(), 0), mean_square(p.size(), 0) {}

  static double norm(const std::vector<double>& x) {
    double sum = 0;
    for (double element : x) sum += element * element;
    return std::sqrt(sum);
  }

  /// Returns the trust ratio.
  double step(const OptimizerConfig& c, const std::vector<double>& g, double rate, double t,
              double decay) {
    std::vector<double> direction;
    for (size_t i = 0; i < p.size(); ++i) {
      mean[i] = c.beta1 * mean[i] + (1 - c.beta1) * g[i];
      mean_square[i] = c.beta2 * mean_square[i] + (1 - c.beta2) * g[i] * g[i];
      direction.push_back(mean[i] / (1 - std::pow(c.beta1, t)) /
                              (std::sqrt(mean_square[i] / (1 - std::pow(c.beta2, t))) + c.epsilon) +
                          decay * p[i]);
    }
    const bool is_usable = norm(p) > 0 && norm(direction) > 0;
    const double trust = is_usable ? norm(p) / norm(direction) : 1;
    for (size_t i = 0; i < p.size(); ++i) p[i] -= rate * trust * direction[i];
    return trust;
  }
};

TEST(Lamb, MakesTheTextbookStepWithTheTrustRatioOfEachTensor) {
  const OptimizerConfig config{.kind = OptimizerKind::kLamb, .weight_decay = 0.25};
  const ReferenceValues state = train(quadratic(config));
  TextbookLamb a({2, -3}), b({1, 0.25});
  for (size_t step = 0; step < kRates.size(); ++step) {
    const double number = static_cast<double>(step + 1);
    a.step(config, a.p, kRates[step], number, config.weight_decay);  // the gradient of a is a
    b.step(config, {number, -0.5}, kRates[step], number, 0);         // a vector does not decay
  }
  const double rounding = rounding_of(config.kind);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(state.at("a").values[i], a.p[i], rounding);
    EXPECT_NEAR(state.at("layer.b").values[i], b.p[i], rounding);
    EXPECT_NEAR(state.at("a.exp_avg").values[i], a.mean[i], rounding);
    EXPECT_NEAR(state.at("a.exp_avg_sq").values[i], a.mean_square[i], rounding);
  }
}

TEST(Lamb, ATensorOfZerosHasTheTrustRatioOne) {
  const OptimizerConfig config{.kind = OptimizerKind::kLamb};
  const Graph graph = quadratic(config);
  ReferenceValues state = start(graph);
  state["layer.b"].values = {0, 0};
  state = next_variables(graph, interpret(graph, with_inputs(state, 0)));
  TextbookLamb b({0, 0});
  EXPECT_EQ(b.step(config, {1, -0.5}, kRates[0], 1, 0), 1);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(state.at("layer.b").values[i], b.p[i], rounding_of(config.kind));
}

// ---- muon ----

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}
Matrix transposed(const Matrix& a) {
  Matrix c(a[0].size(), std::vector<double>(a.size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) c[j][i] = a[i][j];
  return c;
}
Matrix sum(const Matrix& a, double factor_a, const Matrix& b, double factor_b) {
  Matrix c = a;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) c[i][j] = factor_a * a[i][j] + factor_b * b[i][j];
  return c;
}
double in_f32(double number) {
  return static_cast<double>(static_cast<float>(number));
}

/// The update of Jordan et al. (2024) with the scale of Liu et al. (2025), in plain loops.
///   momentum  the state, which it sets
Matrix textbook_muon(const Matrix& gradient, Matrix& momentum, double beta) {
  momentum = sum(momentum, beta, gradient, 1 - beta);
  Matrix x = sum(gradient, 1 - beta, momentum, beta);
  double square = 0;
  for (const auto& row : x)
    for (double element : row) square += element * element;
  x = sum(x, 1 / (std::sqrt(square) + in_f32(1e-7)), x, 0);
  for (int i = 0; i < 5; ++i) {
    const Matrix gram = product(x, transposed(x));
    const Matrix factor = sum(gram, in_f32(-4.7750), product(gram, gram), in_f32(2.0315));
    x = sum(x, in_f32(3.4445), product(factor, x), 1);
  }
  const double largest = static_cast<double>(std::max(x.size(), x[0].size()));
  return sum(x, in_f32(0.2 * std::sqrt(largest)), x, 0);
}

/// loss = sum(target * (x w + bias)) of rows x; the gradient of w is x^T target.
Graph linear_layer(const OptimizerConfig& config, const Shape& weight) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({4, weight[0]}));
  const ValueId w = b.variable("w", f32(weight), Initializer::normal(0, 1));
  Shape result{4};
  for (int d = 1; d < weight.size(); ++d) result.push_back(weight[d]);
  const bool is_matrix = weight.size() == 2;
  const ValueId y = b.dot(x, w, is_matrix ? "ri,io->ro" : "ri,iod->rod");
  const ValueId target = b.input("target", f32(result));
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < result.size(); ++d) dims.push_back(d);
  const ValueId loss = b.reduce_sum(b.mul(target, y), dims, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, config);
  verify(graph);
  return graph;
}

class MuonOfShapes : public testing::TestWithParam<Shape> {};

TEST_P(MuonOfShapes, MakesTheTextbookStep) {
  const OptimizerConfig config{.kind = OptimizerKind::kMuon, .momentum = 0.75, .weight_decay = 0.5};
  const Graph graph = linear_layer(config, GetParam());
  ReferenceValues state = initial_variables(graph, 3);
  const auto rows = static_cast<size_t>(GetParam()[0]);
  const size_t columns = state.at("w").values.size() / rows;
  const auto matrix = [&](const std::vector<double>& values) {
    Matrix m;
    for (size_t i = 0; i < values.size() / columns; ++i)
      m.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i * columns),
                     values.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
    return m;
  };
  Matrix w = matrix(state.at("w").values), momentum = sum(w, 0, w, 0);
  for (size_t step = 0; step < kRates.size(); ++step) {
    const auto numbers = [&](const std::string& name, double frequency) {
      ReferenceTensor tensor{graph.type(*graph.find_value(name)), {}};
      for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
        tensor.values.push_back(
            std::sin(frequency * static_cast<double>(i + 1) + static_cast<double>(step)));
      return tensor;
    };
    state["x"] = numbers("x", 1.7);
    state["target"] = numbers("target", 2.3);
    Matrix x(4, std::vector<double>(rows));
    for (size_t r = 0; r < 4; ++r)
      for (size_t i = 0; i < rows; ++i) x[r][i] = state.at("x").values[r * rows + i];
    const Matrix gradient = product(transposed(x), matrix(state.at("target").values));
    state["learning_rate"] = {f32({}), {kRates[step]}};
    state["step"] = {{DType::kI32, {}}, {static_cast<double>(step)}};
    state = next_variables(graph, interpret(graph, state));
    const Matrix direction = textbook_muon(gradient, momentum, 0.75);
    w = sum(sum(w, 1 - kRates[step] * 0.5, w, 0), 1, direction, -kRates[step]);
  }
  // Five steps multiply the rounding of small singular values by up to 3.4445^5 = 485; each has
  // some hundred operations.
  const double rounding = 3 * 485 * 500 * 0x1p-53;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      EXPECT_NEAR(state.at("w").values[i * columns + j], w[i][j], rounding);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, MuonOfShapes,
                         testing::Values(Shape{3, 2}, Shape{2, 3}, Shape{3, 2, 2}, Shape{2, 2}));

std::vector<std::string> state_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    if (!variable.trainable) names.push_back(graph.value(variable.value).name);
  return names;
}

TEST(Muon, UpdatesWhatIsNoMatrixOfALinearLayerAsAdamwDoes) {
  const OptimizerConfig muon{.kind = OptimizerKind::kMuon, .weight_decay = 0.25};
  OptimizerConfig adamw = muon;
  adamw.kind = OptimizerKind::kAdamW;
  const ReferenceValues by_muon = train(quadratic(muon)), by_adamw = train(quadratic(adamw));
  for (const char* name : {"a", "layer.b", "a.exp_avg", "layer.b.exp_avg_sq"})
    EXPECT_EQ(by_muon.at(name).values, by_adamw.at(name).values) << name;
}

TEST(Muon, UpdatesWhatAPatternNamesAsAdamwDoes) {
  OptimizerConfig config{.kind = OptimizerKind::kMuon};
  EXPECT_THAT(state_names(linear_layer(config, {2, 3})), ElementsAre("w.momentum"));
  config.adam = {"w"};
  EXPECT_THAT(state_names(linear_layer(config, {2, 3})), ElementsAre("w.exp_avg", "w.exp_avg_sq"));
}

TEST(Muon, IsMadeOfProductsThatHaveRules) {
  const Graph graph = linear_layer({.kind = OptimizerKind::kMuon}, {2, 3});
  int products = 0;
  for (const Op& op : graph.ops())
    if (op.role == Role::kOptimizer) products += op.kind == "dot_general";
  EXPECT_EQ(products, 5 * 3);  // the Gram matrix, its square, and the product with X
}

// ---- frozen ----

TEST(Frozen, ParametersHaveNoGradientNoStateAndNoUpdate) {
  const OptimizerConfig config{.frozen = {"layer.*"}};
  const Graph graph = quadratic(config);
  EXPECT_THAT(state_names(graph), ElementsAre("a.exp_avg", "a.exp_avg_sq"));
  EXPECT_EQ(graph.variable_of(*graph.find_value("layer.b"))->next, std::nullopt);
  for (const Op& op : graph.ops())
    if (op.role == Role::kBackward) {
      EXPECT_NE(op.origin.source, "mul") << op.name;  // target * b
    }
  const ReferenceValues state = train(graph), unfrozen = train(quadratic({}));
  EXPECT_THAT(state.at("layer.b").values, ElementsAre(1, 0.25));
  EXPECT_EQ(state.at("a").values, unfrozen.at("a").values);
}

TEST(Frozen, ARuleThatMatchesNothingOrEverythingIsRefused) {
  const auto message = [](const std::vector<std::string>& frozen) {
    try {
      quadratic({.frozen = frozen});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({"layer.c"}),
            "the pattern 'layer.c' of optimizer.frozen matches no parameter\n"
            "  why: it names parameters of the model, such as 'a'\n"
            "  fix: did you mean 'layer.b'?");
  EXPECT_EQ(message({"*"}),
            "there is nothing to train: every parameter is frozen\n"
            "  why: optimizer.frozen has a pattern for each of them\n"
            "  fix: remove a pattern, so that a parameter is trained");
}

TEST(Frozen, OfPatternsOfTrainedParametersOnlyThoseAreTrained) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.variable("a", f32({2}), Initializer::constant(1));
  const ValueId b = builder.variable("b.lora", f32({2}), Initializer::constant(1));
  const ValueId loss = builder.reduce_sum(builder.mul(a, b), {0}, "loss");
  graph.add_output("loss", loss);
  const std::vector<std::string> trained{"*.lora"};
  add_training(builder, loss, {.kind = OptimizerKind::kSgd}, {}, trained);
  EXPECT_FALSE(graph.variable_of(a)->next);
  EXPECT_TRUE(graph.variable_of(b)->next);
}

TEST(Optimizer, AGraphWithoutTrainableVariablesIsRefused) {
  Graph graph;
  Builder builder(graph);
  const ValueId fixed = builder.variable("fixed", f32({2}), Initializer::constant(0), false);
  const ValueId loss = builder.reduce_sum(fixed, {0}, "loss");
  try {
    add_training(builder, loss, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    EXPECT_STREQ(error.what(),
                 "there is nothing to train\n"
                 "  why: the graph has no trainable variable\n"
                 "  fix: declare at least one variable as trainable");
  }
}

// ---- the scale of the loss ----

/// The program of quadratic(), with a scale of 8 that doubles after two steps.
Graph scaled(const OptimizerConfig& config) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.variable("a", f32({1, 2}), Initializer::constant(0));
  const ValueId b = builder.variable("layer.b", f32({2}), Initializer::constant(0));
  const ValueId target = builder.input("target", f32({2}));
  const ValueId square =
      builder.mul_scalar(builder.reduce_sum(builder.unary("square", a), {0, 1}), 0.5);
  const ValueId loss = builder.add(square, builder.reduce_sum(builder.mul(target, b), {0}), "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, config, {}, {}, LossScale{.initial = 8, .steps_to_double = 2});
  verify(graph);
  return graph;
}

class EveryScaledOptimizer : public testing::TestWithParam<OptimizerKind> {
 protected:
  OptimizerConfig config() const {
    return {.kind = GetParam(), .weight_decay = 0.1, .clip_norm = 1.0};
  }
};

TEST_P(EveryScaledOptimizer, MakesTheUpdatesOfTheUnscaledOne) {
  const ReferenceValues with = train(scaled(config())), without = train(quadratic(config()));
  for (const auto& [name, tensor] : without)
    for (size_t i = 0; i < tensor.values.size(); ++i)
      EXPECT_NEAR(with.at(name).values[i], tensor.values[i], kRounding) << name;
}

TEST_P(EveryScaledOptimizer, AStepWithAnInfiniteGradientChangesTheScaleAlone) {
  const Graph graph = scaled(config());
  ReferenceValues state = next_variables(graph, interpret(graph, with_inputs(start(graph), 0)));
  for (const double wrong :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    ReferenceValues inputs = with_inputs(state, 1);
    inputs["target"].values[1] = wrong;
    const ReferenceValues values = interpret(graph, inputs);
    EXPECT_EQ(values.at(graph.value(graph.output("skipped")).name).values[0], 1);
    const ReferenceValues next = next_variables(graph, values);
    for (const auto& [name, tensor] : next) {
      std::vector<double> expected = state.at(name).values;
      if (name == "loss_scale") expected = {4};
      if (name == "loss_scale.steps") expected = {0};
      EXPECT_EQ(tensor.values, expected) << name;
    }
  }
}

TEST_P(EveryScaledOptimizer, DoublesTheScaleAfterStepsWithoutAnOverflow) {
  const Graph graph = scaled(config());
  ReferenceValues state = start(graph);
  std::vector<double> scales, steps;
  for (size_t step : {0, 1, 2}) {
    state = next_variables(graph, interpret(graph, with_inputs(state, step)));
    scales.push_back(state.at("loss_scale").values[0]);
    steps.push_back(state.at("loss_scale.steps").values[0]);
  }
  EXPECT_THAT(scales, ElementsAre(8, 16, 16));
  EXPECT_THAT(steps, ElementsAre(1, 0, 1));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryScaledOptimizer,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                         OptimizerKind::kAdam, OptimizerKind::kAdamW));

}  // namespace
}  // namespace tessera
