#include "ir/autodiff/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/testing/tensor_types.h"
#include "ir/autodiff/testing/gradient_check.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

/// A graph under construction with values for its variables.
struct Program {
  Graph graph;
  Builder builder{graph};
  ReferenceValues state;

  ValueId variable(const std::string& name, const Shape& shape, std::vector<double> values) {
    state[name] = {f32(shape), std::move(values)};
    return builder.variable(name, f32(shape), Initializer::constant(0));
  }
  ValueId random_variable(const std::string& name, const Shape& shape) {
    const RandomStream stream(random_key(1, name), 0);
    std::vector<double> values;
    for (int64_t i = 0; i < element_count(shape); ++i)
      values.push_back(stream.normal(static_cast<uint64_t>(i)));
    return variable(name, shape, std::move(values));
  }
  ValueId sum(ValueId x) {
    std::vector<int64_t> dims;
    for (int dim = 0; dim < builder.shape(x).size(); ++dim) dims.push_back(dim);
    return builder.reduce_sum(x, dims, "loss");
  }
  std::vector<double> value(ValueId id) {
    return interpret(graph, state).at(graph.value(id).name).values;
  }
  std::vector<double> gradient(ValueId loss, ValueId target) {
    return value(differentiate(builder, loss, {target})[0]);
  }
};

int count_of(const Graph& graph, std::string_view kind, Role role) {
  int count = 0;
  for (const Op& op : graph.ops()) count += op.kind == kind && op.role == role;
  return count;
}

template <typename Function>
std::string user_error(Function function) {
  try {
    function();
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    return error.what();
  }
  return "no error";
}

TEST(Gradient, OfAProductIsTheOtherFactor) {
  Program p;
  const ValueId x = p.variable("x", {3}, {1, 2, 3});
  const ValueId w = p.variable("w", {3}, {4, 5, 6});
  const ValueId loss = p.sum(p.builder.mul(x, w));
  const std::vector<ValueId> gradients = differentiate(p.builder, loss, {w, x});
  EXPECT_THAT(p.value(gradients[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(p.value(gradients[1]), ElementsAre(4, 5, 6));
}

TEST(Gradient, OfTheLossItselfIsOne) {
  Program p;
  const ValueId loss = p.sum(p.variable("x", {2}, {1, 2}));
  const std::vector<ValueId> gradients = differentiate(p.builder, loss, {loss});
  EXPECT_THAT(p.value(gradients[0]), ElementsAre(1));
  EXPECT_EQ(p.graph.value(gradients[0]).name, "loss.grad");
}

TEST(Gradient, OfAValueInBetweenStopsThere) {
  Program p;
  const ValueId x = p.variable("x", {2}, {3, 5});
  const ValueId square = p.builder.mul(x, x, "square");
  const ValueId loss = p.sum(p.builder.mul_scalar(square, 7.0));
  const std::vector<ValueId> gradients = differentiate(p.builder, loss, {square});
  EXPECT_THAT(p.value(gradients[0]), ElementsAre(7, 7));
  EXPECT_EQ(p.graph.find_op("square.grad.a"), std::nullopt);
}

TEST(Gradient, AnOpThatReadsAValueTwiceGivesTwice) {
  Program p;
  const ValueId x = p.variable("x", {2}, {3, 5});
  EXPECT_THAT(p.gradient(p.sum(p.builder.mul(x, x)), x), ElementsAre(6, 10));  // d x^2 = 2 x
}

TEST(Gradient, FanOutIsSummedInTheProgramOrderOfTheUses) {
  Program p;
  const ValueId x = p.variable("x", {}, {2});
  const ValueId first = p.builder.mul_scalar(x, 3.0, "first");
  const ValueId second = p.builder.mul_scalar(x, 5.0, "second");
  const ValueId third = p.builder.mul_scalar(x, 7.0, "third");
  const ValueId loss = p.builder.add(p.builder.add(first, second), third, "loss");
  const ValueId gradient = differentiate(p.builder, loss, {x})[0];
  EXPECT_THAT(p.value(gradient), ElementsAre(15));  // 3 + 5 + 7
  // (first + second) + third
  const Op& outer = p.graph.op(p.graph.value(gradient).producer);
  EXPECT_EQ(outer.name, "x.grad.sum_1");
  EXPECT_THAT(p.graph.value(outer.inputs[1]).name, StartsWith("third.grad"));
  const Op& inner = p.graph.op(p.graph.value(outer.inputs[0]).producer);
  EXPECT_EQ(inner.name, "x.grad.sum");
  EXPECT_THAT(p.graph.value(inner.inputs[0]).name, StartsWith("first.grad"));
  EXPECT_THAT(p.graph.value(inner.inputs[1]).name, StartsWith("second.grad"));
  EXPECT_EQ(inner.origin, (Origin{"x", "gradient sum"}));
}

TEST(Gradient, NewOpsAreBackwardAndSayWhereTheyComeFrom) {
  Program p;
  const ValueId x = p.random_variable("x", {2, 3});
  const ValueId w = p.random_variable("w", {3, 2});
  ValueId loss;
  {
    const auto scope = p.builder.scope("layer");
    loss = p.builder.reduce_sum(
        p.builder.unary("tanh", p.builder.dot(x, w, "mk,kn->mn", "dot"), "tanh"), {0, 1}, "loss");
  }
  const size_t forward = p.graph.ops().size();
  {
    // The scope of the caller is not used: gradients are named after their forward op.
    const auto scope = p.builder.scope("elsewhere");
    differentiate(p.builder, loss, {x, w});
  }
  ASSERT_GT(p.graph.ops().size(), forward);
  for (size_t i = 0; i < p.graph.ops().size(); ++i) {
    const Op& op = p.graph.ops()[i];
    EXPECT_EQ(op.role, i < forward ? Role::kForward : Role::kBackward) << op.name;
    if (i < forward) continue;
    EXPECT_EQ(op.origin.derivation, "gradient");
    EXPECT_TRUE(p.graph.find_op(op.origin.source)) << op.origin.source;
    EXPECT_THAT(op.name, StartsWith(op.origin.source + ".grad"));
  }
  EXPECT_EQ(p.builder.role(), Role::kForward);
}

TEST(Gradient, WhatNobodyAskedForIsNotBuilt) {
  Program both, one;
  for (Program* p : {&both, &one}) {
    const ValueId x = p->random_variable("x", {2, 3});
    const ValueId w = p->random_variable("w", {3, 2});
    const ValueId loss = p->sum(p->builder.dot(x, w, "mk,kn->mn"));
    differentiate(p->builder, loss, p == &both ? std::vector{x, w} : std::vector{w});
  }
  EXPECT_EQ(count_of(both.graph, "dot_general", Role::kBackward), 2);
  EXPECT_EQ(count_of(one.graph, "dot_general", Role::kBackward), 1);
}

TEST(Gradient, AfterStopGradientIsZero) {
  Program p;
  const ValueId x = p.variable("x", {2}, {3, 5});
  const ValueId loss = p.sum(p.builder.mul(p.builder.stop_gradient(x), x));
  EXPECT_THAT(p.gradient(loss, x), ElementsAre(3, 5));  // the stopped factor is a constant

  Program q;
  const ValueId y = q.variable("y", {2}, {3, 5});
  EXPECT_THAT(q.gradient(q.sum(q.builder.stop_gradient(q.builder.mul(y, y))), y),
              ElementsAre(0, 0));
  EXPECT_EQ(count_of(q.graph, "mul", Role::kBackward), 0);
}

TEST(Gradient, OfWhatTheLossDoesNotReadIsAConstantZero) {
  Program p;
  const ValueId x = p.variable("x", {2}, {3, 5});
  const ValueId unused = p.variable("unused", {3}, {1, 2, 3});
  const std::vector<ValueId> gradients = differentiate(p.builder, p.sum(x), {unused});
  EXPECT_EQ(p.graph.type(gradients[0]), f32({3}));
  EXPECT_EQ(p.graph.op(p.graph.value(gradients[0]).producer).kind, "constant");
  EXPECT_EQ(p.graph.value(gradients[0]).name, "unused.grad.zero");
  EXPECT_THAT(p.value(gradients[0]), ElementsAre(0, 0, 0));
}

TEST(Gradient, OfIntegersIsZeroOfTheirType) {
  Program p;
  const ValueId table = p.variable("table", {2, 1}, {10, 20});
  const ValueId ids = p.builder.input("ids", {DType::kI32, {3}});
  p.state["ids"] = {{DType::kI32, {3}}, {1, 0, 1}};
  const std::vector<ValueId> gradients =
      differentiate(p.builder, p.sum(p.builder.gather(table, ids)), {table, ids});
  EXPECT_THAT(p.value(gradients[0]), ElementsAre(1, 2));  // row 0 is read once, row 1 twice
  EXPECT_EQ(p.graph.type(gradients[1]), (TensorType{DType::kI32, {3}}));
  EXPECT_THAT(p.value(gradients[1]), ElementsAre(0, 0, 0));
}

TEST(Gradient, ThroughAnOperatorWithoutGradientIsRefused) {
  Program p;
  const ValueId w = p.variable("w", {2}, {3, 5});
  const ValueId rounded = p.builder.unary("floor", p.builder.mul_scalar(w, 2.0), "rounded");
  const ValueId loss = p.sum(rounded);
  EXPECT_EQ(user_error([&] { differentiate(p.builder, loss, {w}); }),
            "no gradient of 'loss' reaches 'w'\n"
            "  why: the only way there leads through 'rounded', and floor has no gradient\n"
            "  fix: do not train 'w', or put a stop_gradient before 'rounded' if zeros are meant");
}

TEST(Gradient, AnOperatorWithoutGradientMayStandBesideAWayThatHasOne) {
  Program p;
  const ValueId w = p.variable("w", {2}, {3, 5});
  const ValueId loss = p.sum(p.builder.mul(p.builder.unary("floor", w), w));
  EXPECT_THAT(p.gradient(loss, w), ElementsAre(3, 5));
}

TEST(Gradient, AnOperatorWithoutGradientMayStandAfterStopGradient) {
  Program p;
  const ValueId w = p.variable("w", {2}, {3, 5});
  const ValueId loss = p.sum(p.builder.unary("floor", p.builder.stop_gradient(w)));
  EXPECT_THAT(p.gradient(loss, w), ElementsAre(0, 0));
}

TEST(Gradient, OfAGradientIsTheSecondDerivative) {
  Program p;
  const ValueId x = p.variable("x", {}, {3});
  const ValueId cube = p.builder.mul(p.builder.mul(x, x), x, "cube");
  const ValueId slope = differentiate(p.builder, cube, {x})[0];
  EXPECT_THAT(p.value(slope), ElementsAre(27));                                    // 3 x^2
  EXPECT_THAT(p.value(differentiate(p.builder, slope, {x})[0]), ElementsAre(18));  // 6 x
}

TEST(Gradient, OfAScalarOnly) {
  Program p;
  const ValueId x = p.variable("x", {2}, {3, 5});
  EXPECT_THROW(differentiate(p.builder, x, {x}), InternalError);
}

TEST(Gradient, OfANetWithBroadcastsAgreesWithFiniteDifferences) {
  Program p;
  Builder& b = p.builder;
  const ValueId x = p.random_variable("x", {3, 4});
  const ValueId w1 = p.random_variable("w1", {4, 5});
  const ValueId bias = p.random_variable("bias", {5});
  const ValueId w2 = p.random_variable("w2", {5, 2});
  const ValueId hidden =
      b.unary("tanh", b.add(b.dot(x, w1, "mk,kn->mn"), b.broadcast_leading(bias, {3, 5})));
  const ValueId out = b.add(b.dot(hidden, w2, "mk,kn->mn"), b.dot(hidden, w2, "mk,kn->mn"));
  p.graph.add_output("loss", p.sum(b.unary("square", out)));
  for (const GradientSample& sample :
       sample_gradients(p.graph, p.state, {"x", "w1", "bias", "w2"})) {
    EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where;
    EXPECT_LT(sample.tolerance, 1e-3 * (1 + std::abs(sample.numeric))) << sample.where;
  }
}

}  // namespace
}  // namespace tessera
