// dot_general: a product of two tensors in which each letter of an einsum is a dim.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/einsum.h"
#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/reference_product.h"

namespace tessera {
namespace {

Einsum einsum_of(const OpView& op) {
  return parse_einsum(op.attributes.text("spec")).value();
}

/// All letters, in the order of a, then b.
std::string letters_of(const Einsum& einsum) {
  std::string letters = einsum.a();
  for (char letter : einsum.b())
    if (!has_letter(letters, letter)) letters += letter;
  return letters;
}

int64_t extent_of(const Einsum& einsum, const OpView& op, char letter) {
  const int operand = has_letter(einsum.a(), letter) ? 0 : 1;
  return op.inputs[operand].shape[dim_of_letter(einsum.operands[operand], letter)];
}

/// The product of the extents of the letters for which `counts` is true.
template <typename Predicate>
double extent_product(const Einsum& einsum, const OpView& op, Predicate counts) {
  double product = 1;
  for (char letter : letters_of(einsum))
    if (counts(letter)) product *= static_cast<double>(extent_of(einsum, op, letter));
  return product;
}

bool repeats_a_letter(std::string text) {
  std::sort(text.begin(), text.end());
  return std::adjacent_find(text.begin(), text.end()) != text.end();
}

void check_letters(const OpView& op, const std::string& spec, const Einsum& einsum) {
  for (const std::string* text : {&einsum.a(), &einsum.b(), &einsum.result})
    if (repeats_a_letter(*text))
      detail::refuse("dot_general", op, "'" + *text + "' of \"" + spec + "\" repeats a letter",
                     "each letter is one dim of an operand",
                     "give every dim of an operand a letter of its own");
  for (char letter : einsum.a() + einsum.b() + einsum.result)
    if (has_letter(einsum.a(), letter) + has_letter(einsum.b(), letter) +
            has_letter(einsum.result, letter) <
        2)
      detail::refuse("dot_general", op,
                     std::string("letter ") + letter + " occurs once in \"" + spec + "\"",
                     "every letter occurs in at least two of a, b and the result",
                     "sum a dim of one operand by reduce, make a new dim by broadcast");
}

/// The einsum of a product of two operands. Refuses other texts.
Einsum checked_einsum(const OpView& op) {
  const std::string& spec = op.attributes.text("spec");
  const std::optional<Einsum> parsed = parse_einsum(spec);
  if (!parsed || parsed->operands.size() != 2)
    detail::refuse("dot_general", op, "\"" + spec + "\" is not a product of two operands",
                   "a spec lists the dims of a, of b and of the result",
                   "write it as \"mk,kn->mn\"");
  const Einsum& einsum = *parsed;
  const std::string letters = einsum.a() + einsum.b() + einsum.result;
  const bool only_letters = std::all_of(letters.begin(), letters.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
  if (!only_letters)
    detail::refuse("dot_general", op, "\"" + spec + "\" names a dim by a sign that is no letter",
                   "dims are the letters a to z and A to Z", "write it as \"mk,kn->mn\"");
  check_letters(op, spec, einsum);
  return einsum;
}

void check_rank(const OpView& op, int input, std::string_view operand, const std::string& letters) {
  const TensorType& type = op.inputs[input];
  if (type.shape.size() == std::ssize(letters)) return;
  detail::refuse("dot_general", op,
                 std::string(operand) + " " + to_text(type) + " does not fit '" + letters + "'",
                 "the spec \"" + op.attributes.text("spec") + "\" names " +
                     std::to_string(letters.size()) + " dims and the operand has " +
                     std::to_string(type.shape.size()),
                 "give one letter for each dim");
}

void check_extents(const OpView& op, const Einsum& einsum) {
  for (int i = 0; i < op.inputs[0].shape.size(); ++i) {
    const char letter = einsum.a()[i];
    if (!has_letter(einsum.b(), letter)) continue;
    const int64_t in_a = op.inputs[0].shape[i];
    const int64_t in_b = op.inputs[1].shape[dim_of_letter(einsum.b(), letter)];
    if (in_a != in_b)
      detail::refuse("dot_general", op,
                     "a " + to_text(op.inputs[0]) + " does not fit b " + to_text(op.inputs[1]),
                     std::string("dim ") + letter + " of \"" + op.attributes.text("spec") +
                         "\" is " + std::to_string(in_a) + " in a and " + std::to_string(in_b) +
                         " in b",
                     "correct the spec if an operand is stored the other way, or check the size of "
                     "the layer that produces it");
  }
}

std::vector<TensorType> infer_dot(const OpView& op) {
  detail::expect_operands("dot_general", op, 2);
  detail::expect_dtype("dot_general", op, 0, "a", {DType::kF32});
  detail::expect_dtype("dot_general", op, 1, "b", {DType::kF32});
  detail::expect_equal_dtypes("dot_general", op, 0, "a", 1, "b");
  const Einsum einsum = checked_einsum(op);
  check_rank(op, 0, "a", einsum.a());
  check_rank(op, 1, "b", einsum.b());
  check_extents(op, einsum);
  Shape shape;
  for (char letter : einsum.result) shape.push_back(extent_of(einsum, op, letter));
  return {{detail::sum_dtype("dot_general", op, op.inputs[0].dtype), shape}};
}

ShardingRule rule_dot(const OpView& op) {
  const Einsum einsum = einsum_of(op);
  const std::string letters = letters_of(einsum);
  ShardingRule result;
  for (char letter : letters)
    detail::add_factor(
        result, std::string(1, letter), extent_of(einsum, op, letter),
        has_letter(einsum.result, letter) ? FactorKind::kParallel : FactorKind::kReduction);
  const auto factors = [&](const std::string& dims) {
    OperandFactors operand;
    for (char letter : dims) operand.push_back({dim_of_letter(letters, letter), 1});
    return operand;
  };
  result.inputs = {factors(einsum.a()), factors(einsum.b())};
  result.outputs = {factors(einsum.result)};
  result.linear = {{0}, {1}};
  return result;
}

/// A multiplication and an addition for each point of the loops over all letters.
Work work_dot(const OpView& op) {
  return {Flops(2 * extent_product(einsum_of(op), op, [](char) { return true; })),
          detail::operand_bytes(op)};
}

KernelCall kernel_dot(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("dot_general", {}, {}, op.attributes.text("spec"));
}

void add_product_of(const OpView& op, std::span<const double> a, std::span<const double> b,
                    std::span<double> out) {
  add_product(einsum_of(op), op.inputs[0].shape, a, op.inputs[1].shape, b, out);
}

void reference_dot(const ReferenceCall& call) {
  add_product_of(call.op, call.inputs[0]->values, call.inputs[1]->values, call.outputs[0].values);
}

std::vector<double> magnitudes(const std::vector<double>& values) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double value) { return std::abs(value); });
  return result;
}

/// The error of a sum of n products: n - 1 additions in any order, a rounding of each product, and
/// one more where parts are added.
std::vector<double> tolerance_dot(const ReferenceCall& call, int output) {
  const Einsum einsum = einsum_of(call.op);
  const double terms = extent_product(
      einsum, call.op, [&](char letter) { return !has_letter(einsum.result, letter); });
  std::vector<double> errors(call.outputs[0].values.size(), 0.0);
  add_product_of(call.op, magnitudes(call.inputs[0]->values), magnitudes(call.inputs[1]->values),
                 errors);
  for (double& error : errors)
    error = detail::summation_error(terms + 2, error, call.outputs[output].type.dtype);
  return errors;
}

/// The gradient is a product again: the letters of the operand are all in the result and the other
/// operand.
std::vector<std::optional<ValueId>> gradient_dot(Builder& builder, const GradientCall& call) {
  const Einsum einsum = parse_einsum(call.op.attributes.text("spec")).value();
  const ValueId a = call.op.inputs[0], b = call.op.inputs[1],
                flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(call.op.inputs[0]).dtype);
  std::vector<std::optional<ValueId>> gradients(2);
  if (call.wanted[0])
    gradients[0] =
        builder.dot(flow, b, to_text(Einsum{{einsum.result, einsum.b()}, einsum.a()}), "a");
  if (call.wanted[1])
    gradients[1] =
        builder.dot(a, flow, to_text(Einsum{{einsum.a(), einsum.result}, einsum.b()}), "b");
  return gradients;
}

}  // namespace

std::span<const Operator> dot_operators() {
  static const std::array operators{Operator{.name = "dot_general",
                                             .precision = PrecisionClass::kNarrow,
                                             .infer = infer_dot,
                                             .rule = rule_dot,
                                             .work = work_dot,
                                             .kernel = kernel_dot,
                                             .reference = reference_dot,
                                             .tolerance = tolerance_dot,
                                             .gradient = gradient_dot}};
  return operators;
}

}  // namespace tessera
