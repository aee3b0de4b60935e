#include "mish.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"

using namespace tessera;

namespace {

template <typename T>
T mish(T x) {
  return x * std::tanh(std::log1p(std::exp(x)));
}

std::vector<TensorType> infer(const OpView& op) {
  detail::expect_operands("mish", op, 1);
  detail::expect_dtype("mish", op, 0, "x", {DType::kF32});
  return {op.inputs[0]};
}

ShardingRule rule(const OpView& op) {
  return detail::elementwise_rule(op, {});
}

Work work(const OpView& op) {
  return detail::elementwise_work(op, 3 * detail::kTranscendental);
}

KernelCall kernel(const OpView&, std::span<const Split>) {
  return detail::kernel_call("mish");
}

void reference(const ReferenceCall& call) {
  std::ranges::transform(call.inputs[0]->values, call.outputs[0].values.begin(), mish<double>);
}

// exp, log1p, tanh and the product; none of them amplifies the relative error of its argument.
std::vector<double> tolerance(const ReferenceCall& call, int output) {
  return detail::rounded(call, output, 3 * detail::kLibraryRoundings + detail::kOneRounding);
}

// With t = tanh(log(1 + exp(x))):  dy/dx = t + x (1 - t^2) logistic(x).
detail::Gradients gradient(Builder& b, const GradientCall& call) {
  const ValueId x = call.op.inputs[0], dy = call.output_gradients[0].value();
  const ValueId t = b.unary("tanh", b.unary("log1p", b.unary("exp", x)));
  const ValueId rest = b.add_scalar(b.mul_scalar(b.unary("square", t), -1), 1);
  const ValueId slope = b.add(t, b.mul(b.mul(x, b.unary("logistic", x)), rest));
  return {b.mul(dy, slope, "x")};
}

BoundKernel bind(const LocalCall& call) {
  const auto run = [count = element_count(call.outputs[0].shape)](const KernelBuffers& buffers) {
    const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
    std::transform(x, x + count, reinterpret_cast<float*>(buffers.outputs[0]), mish<float>);
  };
  return {run, Bytes(0)};
}

}  // namespace

OperatorSetPtr mish_operators() {
  const Operator mish{.name = "mish",
                      .infer = infer,
                      .rule = rule,
                      .work = work,
                      .kernel = kernel,
                      .reference = reference,
                      .tolerance = tolerance,
                      .gradient = gradient};
  return std::make_shared<const OperatorSet>(
      std::vector{mish}, std::vector{NamedKernel{"mish", bind, /*in_place=*/true}});
}
