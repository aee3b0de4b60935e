#include "ir/precision/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/error.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// The element type of the value called `name`.
DType type_of(const Graph& graph, std::string_view name) {
  const auto value = graph.find_value(name);
  ensure(value.has_value(), "there is a value '" + std::string(name) + "'");
  return graph.type(*value).dtype;
}

bool has(const Graph& graph, std::string_view name) {
  return graph.find_value(name).has_value();
}

/// y = gelu-like(x w + b), two layers, a mean of squares as the loss.
Graph two_layers() {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input("x", {DType::kF32, {4, 8}});
  for (const char* layer : {"first", "second"}) {
    const auto scope = builder.scope(layer);
    const ValueId w = builder.variable("w", {DType::kF32, {8, 8}}, Initializer::normal(0, 1));
    const ValueId b = builder.variable("b", {DType::kF32, {8}}, Initializer::constant(0));
    const ValueId product = builder.dot(x, w, "mk,kn->mn", "dot");
    x = builder.unary(
        "tanh", builder.add(product, builder.broadcast(b, {4, 8}, {1}, "spread"), "sum"), "tanh");
  }
  builder.graph().add_output(
      "loss", builder.reduce_sum(builder.unary("square", x, "square"), {0, 1}, "loss"));
  return graph;
}

TEST(WithPrecision, ComputesProductsAndWhatLiesBetweenThemIn16Bits) {
  const Graph graph = with_precision(two_layers(), DType::kBF16);
  for (const char* name : {"x.bf16", "first.w.bf16", "first.dot", "first.sum", "first.tanh",
                           "second.dot", "second.tanh"})
    EXPECT_EQ(type_of(graph, name), DType::kBF16) << name;
  EXPECT_EQ(type_of(graph, "square"), DType::kF32);
  EXPECT_EQ(type_of(graph, "loss"), DType::kF32);
  verify(graph);
}

TEST(WithPrecision, KeepsNamesAndTypesOfInputsVariablesAndOutputs) {
  const Graph before = two_layers(), after = with_precision(two_layers(), DType::kF16);
  for (const Variable& variable : before.variables())
    EXPECT_EQ(after.type(*after.find_value(before.value(variable.value).name)),
              before.type(variable.value));
  EXPECT_EQ(type_of(after, "x"), DType::kF32);
  EXPECT_EQ(after.type(after.output("loss")), before.type(before.output("loss")));
  for (const Op& op : before.ops()) EXPECT_TRUE(after.find_op(op.name)) << op.name;
}

TEST(WithPrecision, OfF32IsTheGraphAsItIs) {
  EXPECT_EQ(to_text(with_precision(two_layers(), DType::kF32)), to_text(two_layers()));
}

TEST(WithPrecision, CastsAValueOnceHoweverManyReadIt) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", {DType::kF32, {8, 8}}, Initializer::normal(0, 1));
  const ValueId x = builder.input("x", {DType::kF32, {8, 8}});
  const ValueId y = builder.dot(builder.dot(x, w, "mk,kn->mn", "a"), w, "mk,kn->mn", "b");
  graph.add_output("y", y);
  const Graph after = with_precision(std::move(graph), DType::kBF16);
  EXPECT_EQ(after.value(*after.find_value("w")).users.size(), 1U);
  EXPECT_EQ(after.value(*after.find_value("w.bf16")).users.size(), 2U);
}

/// softmax(x w), as a composition.
TEST(WithPrecision, ComputesASoftmaxInF32) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", {DType::kF32, {8, 8}}, Initializer::normal(0, 1));
  const ValueId x = builder.input("x", {DType::kF32, {4, 8}});
  const ValueId scores = builder.dot(x, w, "mk,kn->mn", "scores");
  const ValueId largest = builder.reduce(ReduceOp::kMax, scores, {1}, "most");
  const ValueId shifted =
      builder.sub(scores, builder.broadcast(largest, {4, 8}, {0}, "spread"), "shifted");
  const ValueId power = builder.unary("exp", shifted, "power");
  graph.add_output("sum", builder.reduce_sum(power, {1}, "sum"));
  const Graph after = with_precision(std::move(graph), DType::kBF16);
  EXPECT_EQ(type_of(after, "scores"), DType::kBF16);
  for (const char* name : {"most", "spread", "shifted", "power", "sum"})
    EXPECT_EQ(type_of(after, name), DType::kF32) << name;
  EXPECT_EQ(after.value(*after.find_value("scores")).users.size(), 1U)
      << "the maximum and the difference share a cast";
}

TEST(WithPrecision, AnActivationThatIsOnlyRoundedIsSelectedIn16Bits) {
  // exp(x) is f32; its transpose and its maximum with 0 are read by the product alone.
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", {DType::kF32, {4, 8}}, Initializer::normal(0, 1));
  const ValueId x = builder.input("x", {DType::kF32, {4, 8}});
  const ValueId moved = builder.transpose(builder.unary("exp", x, "power"), {1, 0}, "moved");
  const ValueId kept = builder.max_scalar(moved, 0, "scaled");
  const ValueId zero = builder.constant({DType::kF32, {8, 4}}, 0, "zero");
  graph.add_output("y", builder.dot(builder.maximum(kept, zero, "kept"), w, "mk,kn->mn", "y"));
  const Graph after = with_precision(std::move(graph), DType::kBF16);
  EXPECT_EQ(type_of(after, "power"), DType::kF32);
  EXPECT_EQ(type_of(after, "scaled"), DType::kF32) << "max_scalar is not among the exact ops";
  EXPECT_EQ(type_of(after, "kept"), DType::kBF16);
}

TEST(WithPrecision, ASumOf16BitsIsF32WithoutACopyOfItsOperand) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", {DType::kF32, {8, 8}}, Initializer::normal(0, 1));
  const ValueId x = builder.input("x", {DType::kF32, {4, 8}});
  graph.add_output("y", builder.reduce_sum(builder.dot(x, w, "mk,kn->mn", "dot"), {0}, "sum"));
  const Graph after = with_precision(std::move(graph), DType::kF16);
  EXPECT_EQ(type_of(after, "dot"), DType::kF16);
  EXPECT_EQ(type_of(after, "sum"), DType::kF32);
  EXPECT_FALSE(has(after, "dot.f32"));
}

TEST(WithPrecision, TheNextValueOfAVariableHasTheTypeOfTheVariable) {
  Graph graph;
  Builder builder(graph);
  const ValueId cache =
      builder.variable("cache", {DType::kF32, {4, 8}}, Initializer::constant(0), false);
  const ValueId w = builder.variable("w", {DType::kF32, {8, 8}}, Initializer::normal(0, 1));
  const ValueId x = builder.input("x", {DType::kF32, {4, 8}});
  graph.set_next(cache, builder.add(cache, builder.dot(x, w, "mk,kn->mn", "dot"), "sum"));
  const Graph after = with_precision(std::move(graph), DType::kBF16);
  verify(after);
  EXPECT_EQ(after.type(*after.variables()[0].next).dtype, DType::kF32);
}

// ---- gradients ----

/// The training graph of two_layers, and the gradients by the name of the variable.
struct Differentiated {
  Graph graph;
  std::map<std::string, ValueId> gradients;
};

Differentiated differentiated(DType dtype, DType of_gradients = DType::kF32) {
  Graph graph = with_precision(two_layers(), dtype);
  std::vector<ValueId> parameters;
  for (const Variable& variable : graph.variables()) parameters.push_back(variable.value);
  Builder builder(graph);
  const std::vector<ValueId> gradients = differentiate(builder, graph.output("loss"), parameters);
  TypedGradients wide = with_gradients_in(graph, of_gradients);
  Differentiated result{std::move(wide.graph), {}};
  for (size_t i = 0; i < parameters.size(); ++i)
    result.gradients[graph.value(parameters[i]).name] =
        wide.value[static_cast<size_t>(gradients[i].index)];
  return result;
}

TEST(WithGradientsIn, GradientsOfWeightsAreProductsInF32WithoutARounding) {
  const Differentiated training = differentiated(DType::kBF16);
  for (const auto& [name, gradient] : training.gradients) {
    EXPECT_EQ(training.graph.type(gradient).dtype, DType::kF32) << name;
    const Op& maker = training.graph.op(training.graph.value(gradient).producer);
    EXPECT_THAT(maker.kind, testing::AnyOf("dot_general", "reduce")) << name;
    EXPECT_EQ(training.graph.type(maker.inputs[0]).dtype, DType::kBF16) << name;
  }
  verify(training.graph);
}

TEST(WithGradientsIn, GradientsOf16BitsAreRoundedFromSumsInF32) {
  const Differentiated training = differentiated(DType::kBF16, DType::kBF16);
  for (const auto& [name, gradient] : training.gradients) {
    EXPECT_EQ(training.graph.type(gradient).dtype, DType::kF32) << name;
    const Op& back = training.graph.op(training.graph.value(gradient).producer);
    ASSERT_EQ(back.kind, "cast") << name;
    EXPECT_EQ(training.graph.type(back.inputs[0]).dtype, DType::kBF16) << name;
    const Op& rounding = training.graph.op(training.graph.value(back.inputs[0]).producer);
    ASSERT_EQ(rounding.kind, "cast") << name;
    EXPECT_EQ(training.graph.type(rounding.inputs[0]).dtype, DType::kF32) << name;
  }
  verify(training.graph);
}

TEST(WithGradientsIn, GradientsOfActivationsStayIn16Bits) {
  const Differentiated training = differentiated(DType::kBF16);
  EXPECT_EQ(type_of(training.graph, "second.dot.grad.a"), DType::kBF16);
}

TEST(WithGradientsIn, TheBackwardCastsAgainWhatTheForwardCastToF32) {
  // The square reads tanh as f32, and its gradient, too; 16 bits are kept between them.
  const Differentiated training = differentiated(DType::kBF16);
  const Value& forward = training.graph.value(*training.graph.find_value("second.tanh.f32"));
  for (const OpId user : forward.users) EXPECT_EQ(training.graph.op(user).role, Role::kForward);
  EXPECT_TRUE(has(training.graph, "second.tanh.f32.backward"));
}

TEST(WithGradientsIn, ATiedWeightAddsItsGradientsInF32) {
  Graph graph;
  Builder builder(graph);
  const ValueId table = builder.variable("table", {DType::kF32, {6, 8}}, Initializer::normal(0, 1));
  const ValueId ids = builder.input("ids", {DType::kI32, {4}});
  const ValueId rows = builder.gather(table, ids, "rows");
  const ValueId scores = builder.dot(rows, table, "mk,nk->mn", "scores");
  graph.add_output("loss", builder.reduce_sum(builder.unary("square", scores, "square"), {0, 1}));
  graph = with_precision(std::move(graph), DType::kF16);
  Builder after(graph);
  const ValueId gradient =
      differentiate(after, graph.output("loss"), {*graph.find_value("table")}).front();
  const TypedGradients wide = with_gradients_in(graph, DType::kF32);
  const Op& sum =
      wide.graph.op(wide.graph.value(wide.value[static_cast<size_t>(gradient.index)]).producer);
  ASSERT_EQ(sum.kind, "add");
  for (const ValueId part : sum.inputs) {
    EXPECT_EQ(wide.graph.type(part).dtype, DType::kF32);
    const Op& maker = wide.graph.op(wide.graph.value(part).producer);
    EXPECT_THAT(maker.kind, testing::AnyOf("dot_general", "scatter_add"));
  }
}

}  // namespace
}  // namespace tessera
