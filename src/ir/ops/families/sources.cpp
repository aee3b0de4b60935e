// Operators without tensor operands: constant, iota, random_uniform. A part of the result depends
// only on its position.
#include <cmath>

#include "base/random.h"
#include "base/tensor/element.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using namespace detail;

Work source_work(const OpView& op) {
  return elementwise_work(op, kCheap);
}

/// Divides each dim of the result and no dim of the inputs.
ShardingRule source_rule(const OpView& op) {
  ShardingRule rule;
  for (const TensorType& input : op.inputs) rule.inputs.emplace_back(input.shape.size());
  rule.outputs.push_back(add_factors(rule, op.outputs.at(0).shape));
  return rule;
}

// ---- constant ----

/// Zeros are the sum of zeros, whatever the number of parts: linear in no operand.
ShardingRule constant_rule(const OpView& op) {
  ShardingRule rule = source_rule(op);
  if (op.attributes.number("value") == 0 && op.outputs.at(0).dtype != DType::kBool)
    rule.linear = {{}};
  return rule;
}

std::vector<TensorType> infer_constant(const OpView& op) {
  expect_operands("constant", op, 0);
  return {{dtype_attribute("constant", op), shape_attribute("constant", op)}};
}

KernelCall constant_kernel(const OpView& op, std::span<const Split>) {
  return kernel_call("constant", {}, {op.attributes.number("value")});
}

/// The value, rounded to its element type.
double held(double value, DType dtype) {
  return visit_element(dtype, [value]<typename E>(E) {
    return E::to_number(E::nearest(is_integer(E::kDType) ? std::trunc(value) : value));
  });
}

void constant_reference(const ReferenceCall& call) {
  ReferenceTensor& y = call.outputs[0];
  y.values.assign(y.values.size(), held(call.op.attributes.number("value"), y.type.dtype));
}

// ---- iota ----

std::vector<TensorType> infer_iota(const OpView& op) {
  expect_operands("iota", op, 0);
  const TensorType type{dtype_attribute("iota", op), shape_attribute("iota", op)};
  if (type.dtype == DType::kBool)
    refuse("iota", op, "a bool cannot count", "iota numbers the indices of a dim, as i32 or f32",
           "use dtype i32, and compare it");
  dim_attribute("iota", op, type.shape.size());
  return {type};
}

KernelCall iota_kernel(const OpView& op, std::span<const Split> factors) {
  const int64_t dim = op.attributes.integer("dim");
  return kernel_call("iota", {LocalInt(dim), LocalInt::begin_of(factors[dim])});
}

void iota_reference(const ReferenceCall& call) {
  ReferenceTensor& y = call.outputs[0];
  const auto dim = static_cast<int>(call.op.attributes.integer("dim"));
  const int64_t extent = y.type.shape[dim], stride = row_major_strides(y.type.shape)[dim];
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = static_cast<double>(static_cast<int64_t>(i) / stride % extent);
}

std::vector<double> iota_tolerance(const ReferenceCall& call, int output) {
  std::vector<double> errors = exact(call, output);
  if (!is_float(call.outputs[0].type.dtype)) return errors;
  for (size_t i = 0; i < errors.size(); ++i) {
    const double value = call.outputs[0].values[i];
    errors[i] = rounding_error(value, integer_roundings(value));
  }
  return errors;
}

// ---- random_uniform ----

std::vector<TensorType> infer_random_uniform(const OpView& op) {
  if (op.inputs.size() != 2) expect_operands("random_uniform", op, 1);
  if (op.inputs.size() == 2 && op.inputs[1] != TensorType{DType::kI32, {}})
    refuse("random_uniform", op, "iteration " + to_text(op.inputs[1]) + " is not i32[]",
           "inside a loop the numbers are addressed by the iteration, too, one integer",
           "give it the iteration of the loop's region");
  if (op.inputs[0] != TensorType{DType::kI32, {}})
    refuse("random_uniform", op, "step " + to_text(op.inputs[0]) + " is not i32[]",
           "the numbers are addressed by the step of the training run, one integer",
           "give it the input that counts the steps");
  return {{DType::kF32, shape_attribute("random_uniform", op)}};
}

KernelCall random_uniform_kernel(const OpView& op, std::span<const Split> factors) {
  std::vector<LocalInt> ints{op.attributes.integer("key")};
  for (const Split& factor : factors) ints.push_back(LocalInt::begin_of(factor));
  for (int64_t extent : op.outputs.at(0).shape) ints.emplace_back(extent);
  return kernel_call("random_uniform", std::move(ints));
}

void random_uniform_reference(const ReferenceCall& call) {
  const auto integer = [&](size_t i) { return static_cast<int32_t>(call.inputs[i]->values[0]); };
  const RandomStream stream(static_cast<uint64_t>(call.op.attributes.integer("key")),
                            random_step(integer(0), call.inputs.size() == 2 ? integer(1) : 0));
  std::vector<double>& y = call.outputs[0].values;
  for (size_t i = 0; i < y.size(); ++i) y[i] = stream.uniform(i);
}

std::vector<Operator> list_source_operators() {
  return {
      {"constant", PrecisionClass::kWide, infer_constant, constant_rule, source_work,
       constant_kernel, constant_reference, exact, nullptr},
      {"iota", PrecisionClass::kWide, infer_iota, source_rule, source_work, iota_kernel,
       iota_reference, iota_tolerance, nullptr},
      {"random_uniform", PrecisionClass::kWide, infer_random_uniform, source_rule,
       [](const OpView& op) { return elementwise_work(op, kTranscendental); },
       random_uniform_kernel, random_uniform_reference, exact, nullptr},
  };
}

}  // namespace

std::span<const Operator> source_operators() {
  static const std::vector<Operator> list = list_source_operators();
  return list;
}

}  // namespace tessera
