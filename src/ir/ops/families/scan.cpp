// cumsum and reverse: each element depends on its position along one dim, so that dim stays whole;
// the others are parallel.
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/along_dim.h"

namespace tessera {
namespace {

using detail::Gradients;
using detail::Lanes;

int scanned_dim(const OpView& op) {
  return static_cast<int>(op.attributes.integer("dim"));
}

ShardingRule lane_rule(const OpView& op) {
  ShardingRule rule;
  const OperandFactors factors =
      detail::add_lane_factors(rule, op.inputs[0].shape, scanned_dim(op));
  rule.inputs = {factors};
  rule.outputs = {factors};
  rule.linear = {{0}};
  return rule;
}

Work one_operation_an_element(const OpView& op) {
  return detail::elementwise_work(op, detail::kCheap);
}

// cumsum

std::vector<TensorType> infer_cumsum(const OpView& op) {
  detail::expect_operands("cumsum", op, 1);
  detail::expect_dtype("cumsum", op, 0, "x", {DType::kF32, DType::kI32});
  detail::dim_attribute("cumsum", op, op.inputs[0].shape.size());
  return {op.inputs[0]};
}

/// The elements of a lane that a sum includes: those up to its own, or from it on; without its own
/// when exclusive.
struct Span {
  bool exclusive, reverse;

  explicit Span(const Attributes& attributes)
      : exclusive(attributes.boolean("exclusive")), reverse(attributes.boolean("reverse")) {}
};

/// Calls visit(position, sum of term over the included elements, their number) for each element.
template <typename Term, typename Visit>
void for_each_sum(const ReferenceCall& call, Term term, Visit visit) {
  const std::vector<double>& x = call.inputs[0]->values;
  const Lanes lanes(call.inputs[0]->type.shape, scanned_dim(call.op));
  const Span span(call.op.attributes);
  lanes.for_each([&](int64_t o, int64_t n) {
    double sum = 0;
    for (int64_t step = 0; step < lanes.extent; ++step) {
      const size_t at = lanes.at(o, span.reverse ? lanes.extent - 1 - step : step, n);
      if (span.exclusive) visit(at, sum, step);
      sum += term(x[at]);
      if (!span.exclusive) visit(at, sum, step + 1);
    }
  });
}

KernelCall kernel_cumsum(const OpView& op, std::span<const Split>) {
  const Span span(op.attributes);
  return detail::kernel_call(
      "cumsum", {int64_t{scanned_dim(op)}, int64_t{span.exclusive}, int64_t{span.reverse}});
}

void reference_cumsum(const ReferenceCall& call) {
  std::vector<double>& out = call.outputs[0].values;
  for_each_sum(
      call, [](double x) { return x; }, [&](size_t at, double sum, int64_t) { out[at] = sum; });
}

std::vector<double> tolerance_cumsum(const ReferenceCall& call, int output) {
  std::vector<double> errors = detail::exact(call, output);
  if (!is_float(call.op.inputs[0].dtype)) return errors;
  for_each_sum(
      call, [](double x) { return std::abs(x); },
      [&](size_t at, double sum, int64_t terms) {
        errors[at] = detail::summation_error(static_cast<double>(terms), sum);
      });
  return errors;
}

/// Element i is in the sums that include it, which are those of the other direction.
Gradients gradient_cumsum(Builder& builder, const GradientCall& call) {
  if (!is_float(builder.type(call.op.inputs[0]).dtype)) return {std::nullopt};
  Attributes attributes = call.op.attributes;
  attributes.set("reverse", !attributes.boolean("reverse"));
  return {builder.op1("cumsum", {call.output_gradients.at(0).value()}, attributes, "x")};
}

// reverse

std::vector<TensorType> infer_reverse(const OpView& op) {
  detail::expect_operands("reverse", op, 1);
  detail::dim_attribute("reverse", op, op.inputs[0].shape.size());
  return {op.inputs[0]};
}

KernelCall kernel_reverse(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("reverse", {int64_t{scanned_dim(op)}});
}

void reference_reverse(const ReferenceCall& call) {
  const Lanes lanes(call.inputs[0]->type.shape, scanned_dim(call.op));
  lanes.for_each([&](int64_t o, int64_t n) {
    for (int64_t i = 0; i < lanes.extent; ++i)
      call.outputs[0].values[lanes.at(o, i, n)] =
          call.inputs[0]->values[lanes.at(o, lanes.extent - 1 - i, n)];
  });
}

Gradients gradient_reverse(Builder& builder, const GradientCall& call) {
  const Attributes attributes = call.op.attributes;
  return {builder.op1("reverse", {call.output_gradients.at(0).value()}, attributes, "x")};
}

}  // namespace

std::span<const Operator> scan_operators() {
  static const std::array operators{
      Operator{.name = "cumsum",
               .infer = infer_cumsum,
               .rule = lane_rule,
               .work = one_operation_an_element,
               .kernel = kernel_cumsum,
               .reference = reference_cumsum,
               .tolerance = tolerance_cumsum,
               .gradient = gradient_cumsum},
      Operator{.name = "reverse",
               .precision = PrecisionClass::kExact,
               .infer = infer_reverse,
               .rule = lane_rule,
               .work = [](const OpView& op) { return Work{Flops(0), detail::operand_bytes(op)}; },
               .kernel = kernel_reverse,
               .reference = reference_reverse,
               .tolerance = detail::exact,
               .gradient = gradient_reverse}};
  return operators;
}

}  // namespace tessera
