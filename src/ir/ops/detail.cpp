#include "ir/ops/detail.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/text/text.h"
#include "kernels/element_types.h"

namespace tessera::detail {
namespace {

/// Kernels compute in f32.
constexpr double kUnitRoundoff = unit_roundoff(DType::kF32);

std::string types_of(const OpView& op) {
  std::vector<std::string> types;
  for (const TensorType& type : op.inputs) types.push_back(to_text(type));
  return types.empty() ? "none" : join(types, ", ");
}

std::string operand(std::string_view letter, const TensorType& type) {
  return std::string(letter) + " " + to_text(type);
}

}  // namespace

void refuse(std::string_view kind, const OpView& op, const std::string& what,
            const std::string& why, const std::string& fix) {
  throw UserError(std::string(kind) + " '" + std::string(op.name) + "': " + what, why, fix,
                  ExitCode::kBadData);
}

void expect_operands(std::string_view kind, const OpView& op, int64_t count) {
  const int64_t given = std::ssize(op.inputs);
  if (given == count) return;
  refuse(
      kind, op,
      std::to_string(given) + (given == 1 ? " operand" : " operands") + " given: " + types_of(op),
      std::string(kind) + " takes " + std::to_string(count),
      "give exactly " + std::to_string(count));
}

void expect_dtype(std::string_view kind, const OpView& op, size_t input, std::string_view letter,
                  const std::vector<DType>& allowed) {
  const TensorType& type = op.inputs[input];
  const DType given = is_narrow_float(type.dtype) ? DType::kF32 : type.dtype;
  if (std::find(allowed.begin(), allowed.end(), given) != allowed.end()) return;
  std::vector<std::string> names;
  for (DType dtype : allowed) names.emplace_back(to_text(dtype));
  refuse(kind, op, operand(letter, type) + " has an element type that does not fit",
         std::string(kind) + " takes " + join(names, " or ") + " for " + std::string(letter),
         "cast the operand first");
}

void expect_equal_dtypes(std::string_view kind, const OpView& op, int a, std::string_view letter_a,
                         int b, std::string_view letter_b) {
  if (op.inputs[a].dtype == op.inputs[b].dtype) return;
  refuse(kind, op,
         operand(letter_a, op.inputs[a]) + " does not fit " + operand(letter_b, op.inputs[b]),
         std::string(kind) + " takes operands of one element type",
         "cast one of them to the element type of the other");
}

void expect_equal_types(std::string_view kind, const OpView& op, int a, std::string_view letter_a,
                        int b, std::string_view letter_b) {
  const TensorType& type_a = op.inputs[a];
  const TensorType& type_b = op.inputs[b];
  if (type_a == type_b) return;
  refuse(
      kind, op, operand(letter_a, type_a) + " does not fit " + operand(letter_b, type_b),
      std::string(kind) + " works element by element on operands of one type and shape",
      type_a.dtype == type_b.dtype
          ? "broadcast or reshape the operand that is smaller, or check the layer that produces it"
          : "cast one of them to the element type of the other");
}

Shape shape_attribute(std::string_view kind, const OpView& op, std::string_view attribute) {
  const std::vector<int64_t>& extents = op.attributes.integers(attribute);
  const bool fits =
      extents.size() <= kMaxRank &&
      std::all_of(extents.begin(), extents.end(), [](int64_t extent) { return extent >= 0; });
  if (!fits)
    refuse(kind, op, std::string(attribute) + " " + to_text(Attribute(extents)) + " is not a shape",
           "a shape has at most " + std::to_string(kMaxRank) + " extents, none below 0",
           "correct the extents");
  return Shape(std::span<const int64_t>(extents));
}

int dim_attribute(std::string_view kind, const OpView& op, int rank, std::string_view attribute) {
  const int64_t dim = op.attributes.integer(attribute);
  if (dim < 0 || dim >= rank)
    refuse(kind, op,
           std::string(attribute) + " " + std::to_string(dim) +
               " is not a dim of a tensor of rank " + std::to_string(rank),
           "dims count from 0, the outermost",
           rank == 0 ? "give it a tensor that has a dim" : "use 0 to " + std::to_string(rank - 1));
  return static_cast<int>(dim);
}

DType dtype_attribute(std::string_view kind, const OpView& op) {
  const std::string& text = op.attributes.text("dtype");
  for (const DTypeTraits& row : kDTypes)
    if (text == row.text) return row.dtype;
  refuse(kind, op, "'" + text + "' is not an element type", "tensors hold " + dtype_names(),
         "use one of these");
}

DType sum_dtype(std::string_view kind, const OpView& op, DType operand) {
  if (!op.attributes.has("dtype")) return operand;
  const DType dtype = dtype_attribute(kind, op);
  if (dtype != DType::kF32 || !is_kernel_float(operand))
    refuse(kind, op,
           "dtype " + std::string(to_text(dtype)) + " for operands of " +
               std::string(to_text(operand)),
           "sums of f32, f16 and bf16 are of the type of the operands, or f32",
           "leave dtype out, or cast the result");
  return dtype;
}

KernelCall kernel_call(std::string kernel, std::vector<LocalInt> ints, std::vector<double> reals,
                       std::string text) {
  return {std::move(kernel), std::move(ints), std::move(reals), std::move(text)};
}

int add_factor(ShardingRule& rule, std::string name, int64_t extent, FactorKind kind,
               ReduceOp reduce) {
  rule.factors.push_back({std::move(name), extent, kind, reduce});
  return static_cast<int>(rule.factors.size()) - 1;
}

OperandFactors joined(OperandFactors head, const OperandFactors& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

OperandFactors add_factors(ShardingRule& rule, const Shape& shape, std::string_view prefix) {
  OperandFactors operand_factors;
  for (int d = 0; d < shape.size(); ++d)
    operand_factors.push_back(
        {add_factor(rule, std::string(prefix) + std::to_string(d), shape[d]), 1});
  return operand_factors;
}

ShardingRule elementwise_rule(const OpView& op, LinearSets linear) {
  ShardingRule rule;
  const OperandFactors factors =
      add_factors(rule, op.inputs.empty() ? op.outputs.at(0).shape : op.inputs[0].shape);
  rule.inputs.assign(op.inputs.size(), factors);
  rule.outputs.assign(op.outputs.size(), factors);
  rule.linear = std::move(linear);
  return rule;
}

double elements_of(const Shape& shape) {
  return static_cast<double>(element_count(shape));
}

Bytes operand_bytes(const OpView& op) {
  Bytes bytes{0};
  for (const TensorType& type : op.inputs) bytes += byte_size(type);
  for (const TensorType& type : op.outputs) bytes += byte_size(type);
  return bytes;
}

Work elementwise_work(const OpView& op, double flops_per_element) {
  return {Flops(flops_per_element * elements_of(op.outputs.at(0).shape)), operand_bytes(op)};
}

std::vector<double> exact(const ReferenceCall& call, int output) {
  return std::vector<double>(call.outputs[output].values.size(), 0.0);
}

double rounding_error(double value, double roundings) {
  // An infinity or a NaN has no rounding error: f32 has the same.
  if (roundings == 0 || !std::isfinite(value)) return 0;
  // A number that f32 cannot hold becomes an infinity there.
  if (std::abs(value) * (1 + roundings * kUnitRoundoff) > std::numeric_limits<float>::max())
    return std::numeric_limits<double>::infinity();
  return roundings * (std::abs(value) * kUnitRoundoff + kSmallestNormal);
}

double integer_roundings(double value) {
  return std::abs(value) > 0x1p24 ? kOneRounding : kExact;
}

std::vector<double> rounded(const ReferenceCall& call, int output, double roundings) {
  const std::vector<double>& values = call.outputs[output].values;
  std::vector<double> errors(values.size());
  std::transform(values.begin(), values.end(), errors.begin(),
                 [roundings](double value) { return rounding_error(value, roundings); });
  return errors;
}

double summation_error(double terms, double absolute_sum, DType result) {
  const double share = terms * kUnitRoundoff;
  const double error = absolute_sum * share / (1 - share) + terms * kSmallestNormal;
  const double of_parts = is_narrow_float(result) ? 2 * unit_roundoff(result) : 0;
  return error + of_parts * absolute_sum;
}

}  // namespace tessera::detail
