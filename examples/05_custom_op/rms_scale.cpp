#include "rms_scale.h"

#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"

using namespace tessera;

namespace {

// Positions of the operands; rms_scale has the first two.
constexpr size_t kX = 0, kGain = 1, kFlow = 2;

/// x as rows of equal width.
struct Rows {
  size_t count = 1, width = 0;
};

Rows rows_of(const Shape& x) {
  Rows rows;
  for (int d = 0; d + 1 < x.size(); ++d) rows.count *= static_cast<size_t>(x[d]);
  rows.width = static_cast<size_t>(x[x.size() - 1]);
  return rows;
}

// Types

void expect_gain(std::string_view kind, const OpView& op) {
  const TensorType& x = op.inputs[kX];
  detail::expect_dtype(kind, op, kX, "x", {DType::kF32});
  if (x.shape.empty())
    detail::refuse(kind, op, "x " + to_text(x) + " has no dims", "it scales along the last dim",
                   "reshape x to [1]");
  const TensorType gain{DType::kF32, {x.shape[x.shape.size() - 1]}};
  if (op.inputs[kGain] != gain)
    detail::refuse(kind, op, "gain " + to_text(op.inputs[kGain]) + " does not fit x " + to_text(x),
                   "it has a gain for each column of x", "give it the type " + to_text(gain));
}

std::vector<TensorType> infer(const OpView& op) {
  detail::expect_operands("rms_scale", op, 2);
  expect_gain("rms_scale", op);
  return {op.inputs[kX]};
}

std::vector<TensorType> infer_gradient(const OpView& op) {
  detail::expect_operands("rms_scale_grad", op, 3);
  expect_gain("rms_scale_grad", op);
  detail::expect_equal_types("rms_scale_grad", op, kX, "x", kFlow, "dy");
  return {op.inputs[kX], op.inputs[kGain]};
}

// Rules: a row needs all its columns; rows are independent, and the gradient of the gain is a sum
// over them.

struct RowFactors {
  OperandFactors x, gain;
};

RowFactors add_row_factors(ShardingRule& rule, const Shape& x, FactorKind rows) {
  RowFactors factors;
  for (int d = 0; d + 1 < x.size(); ++d)
    factors.x.push_back({detail::add_factor(rule, "n" + std::to_string(d), x[d], rows), 1});
  factors.gain = {{detail::add_factor(rule, "e", x[x.size() - 1], FactorKind::kWhole), 1}};
  factors.x.push_back(factors.gain[0]);
  return factors;
}

ShardingRule rule(const OpView& op) {
  ShardingRule rule;
  const RowFactors factors = add_row_factors(rule, op.inputs[kX].shape, FactorKind::kParallel);
  rule.inputs = {factors.x, factors.gain};
  rule.outputs = {factors.x};
  rule.linear = {{kGain}};
  return rule;
}

ShardingRule rule_gradient(const OpView& op) {
  ShardingRule rule;
  const RowFactors factors = add_row_factors(rule, op.inputs[kX].shape, FactorKind::kReduction);
  rule.inputs = {factors.x, factors.gain, factors.x};
  rule.outputs = {factors.x, factors.gain};
  rule.linear = {{kFlow}};
  return rule;
}

// Work and kernel calls

Work work(const OpView& op) {
  return detail::elementwise_work(op, 4);
}
Work work_gradient(const OpView& op) {
  return detail::elementwise_work(op, 10);
}

KernelCall kernel(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("rms_scale", {}, {op.attributes.number("epsilon")});
}
KernelCall kernel_gradient(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("rms_scale_grad", {}, {op.attributes.number("epsilon")});
}

// The formulas, in the precision of the kernels and in that of the reference

template <typename T>
T inverse_root(const T* x, size_t width, T epsilon) {
  T squares = 0;
  for (size_t e = 0; e < width; ++e) squares += x[e] * x[e];
  return 1 / std::sqrt(squares / static_cast<T>(width) + epsilon);
}

template <typename T>
void scale_rows(const Rows& rows, T epsilon, const T* x, const T* gain, T* y) {
  for (size_t n = 0; n < rows.count; ++n, x += rows.width, y += rows.width) {
    const T r = inverse_root(x, rows.width, epsilon);
    for (size_t e = 0; e < rows.width; ++e) y[e] = x[e] * r * gain[e];
  }
}

/// dx_e = r (gain_e dy_e - x_e r^2 mean(gain dy x)),  dgain_e = sum_n dy_ne x_ne r_n.
template <typename T>
void scale_rows_back(const Rows& rows, T epsilon, const T* x, const T* gain, const T* dy, T* dx,
                     T* dgain) {
  for (size_t e = 0; e < rows.width; ++e) dgain[e] = 0;
  for (size_t n = 0; n < rows.count; ++n, x += rows.width, dy += rows.width, dx += rows.width) {
    const T r = inverse_root(x, rows.width, epsilon);
    T sum = 0;
    for (size_t e = 0; e < rows.width; ++e) sum += gain[e] * dy[e] * x[e];
    const T pull = r * r * sum / static_cast<T>(rows.width);
    for (size_t e = 0; e < rows.width; ++e) {
      dx[e] = r * (gain[e] * dy[e] - x[e] * pull);
      dgain[e] += dy[e] * x[e] * r;
    }
  }
}

void reference(const ReferenceCall& call) {
  scale_rows(rows_of(call.op.inputs[kX].shape), call.op.attributes.number("epsilon"),
             call.inputs[kX]->values.data(), call.inputs[kGain]->values.data(),
             call.outputs[0].values.data());
}

void reference_gradient(const ReferenceCall& call) {
  scale_rows_back(rows_of(call.op.inputs[kX].shape), call.op.attributes.number("epsilon"),
                  call.inputs[kX]->values.data(), call.inputs[kGain]->values.data(),
                  call.inputs[kFlow]->values.data(), call.outputs[0].values.data(),
                  call.outputs[1].values.data());
}

// Tolerances, with u the unit roundoff. The mean of E squares has a relative error of (E + 2) u, so
// r has half of it and a few more.

double root_roundings(const Rows& rows) {
  return 0.5 * static_cast<double>(rows.width) + 6;
}

std::vector<double> tolerance(const ReferenceCall& call, int output) {
  return detail::rounded(call, output, root_roundings(rows_of(call.op.inputs[kX].shape)) + 2);
}

/// The error of dx follows from the two terms and the sum of E products inside the second, by their
/// absolute values; that of dgain from N products, by theirs.
std::vector<double> tolerance_gradient(const ReferenceCall& call, int output) {
  const Rows rows = rows_of(call.op.inputs[kX].shape);
  const double *x = call.inputs[kX]->values.data(), *gain = call.inputs[kGain]->values.data(),
               *dy = call.inputs[kFlow]->values.data();
  const double root = root_roundings(rows), width = static_cast<double>(rows.width);
  std::vector<double> errors(call.outputs[output].values.size(), 0.0);
  for (size_t n = 0; n < rows.count; ++n, x += rows.width, dy += rows.width) {
    const double r = inverse_root(x, rows.width, call.op.attributes.number("epsilon"));
    double sum = 0;
    for (size_t e = 0; e < rows.width; ++e) sum += std::abs(gain[e] * dy[e] * x[e]);
    for (size_t e = 0; e < rows.width; ++e) {
      const double direct = r * std::abs(gain[e] * dy[e]),
                   pulled = std::abs(x[e]) * r * r * r * sum / width;
      if (output == 0)
        errors[n * rows.width + e] = detail::rounding_error(direct, root + 3) +
                                     detail::rounding_error(pulled, 3 * root + width + 8);
      if (output == 1)
        errors[e] +=
            detail::rounding_error(dy[e] * x[e] * r, root + 2 + static_cast<double>(rows.count));
    }
  }
  return errors;
}

// Gradient

detail::Gradients gradient(Builder& builder, const GradientCall& call) {
  const std::vector<ValueId> results =
      builder.op("rms_scale_grad",
                 {call.op.inputs[kX], call.op.inputs[kGain], call.output_gradients.at(0).value()},
                 call.op.attributes, "x");
  detail::Gradients gradients(2);
  for (size_t i = 0; i < 2; ++i)
    if (call.wanted[i]) gradients[i] = results[i];
  return gradients;
}

// Kernels: the binder computes everything that depends only on the call; the loops run every step.

const float* input(const KernelBuffers& buffers, size_t index) {
  return reinterpret_cast<const float*>(buffers.inputs[index]);
}
float* output(const KernelBuffers& buffers, size_t index) {
  return reinterpret_cast<float*>(buffers.outputs[index]);
}

BoundKernel bind(const LocalCall& call) {
  const auto run = [rows = rows_of(call.inputs[kX].shape),
                    epsilon = static_cast<float>(call.reals.at(0))](const KernelBuffers& buffers) {
    scale_rows(rows, epsilon, input(buffers, kX), input(buffers, kGain), output(buffers, 0));
  };
  return {run, Bytes(0)};
}

BoundKernel bind_gradient(const LocalCall& call) {
  const auto run = [rows = rows_of(call.inputs[kX].shape),
                    epsilon = static_cast<float>(call.reals.at(0))](const KernelBuffers& buffers) {
    scale_rows_back(rows, epsilon, input(buffers, kX), input(buffers, kGain), input(buffers, kFlow),
                    output(buffers, 0), output(buffers, 1));
  };
  return {run, Bytes(0)};
}

}  // namespace

std::vector<Operator> rms_scale_operators() {
  return {{.name = "rms_scale",
           .infer = infer,
           .rule = rule,
           .work = work,
           .kernel = kernel,
           .reference = reference,
           .tolerance = tolerance,
           .gradient = gradient},
          {.name = "rms_scale_grad",
           .infer = infer_gradient,
           .rule = rule_gradient,
           .work = work_gradient,
           .kernel = kernel_gradient,
           .reference = reference_gradient,
           .tolerance = tolerance_gradient}};
}

std::vector<NamedKernel> rms_scale_kernels() {
  return {{"rms_scale", bind}, {"rms_scale_grad", bind_gradient}};
}
