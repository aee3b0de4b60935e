// grouped_matmul and grouped_outer: matrix products of rows that are sorted by group, as after the
// routing of tokens to experts.
//
//     grouped_matmul(x [T, K], w [G, K, N], sizes i32[G]) -> [T, N]
//         out[t] = x[t] w[group of t]
//     grouped_outer (x [T, K], y [T, N], sizes i32[G]) -> [G, K, N]
//         out[g] = sum of x[t]^T y[t] over the rows t of group g
//
// The first sizes[0] rows are group 0, the next sizes[1] group 1, and so on. Rows after the last
// group belong to none: their results are zeros, and they are added nowhere. A size below zero
// counts as zero. Each operator is in the gradients of the other.
//   source  Gale et al., MegaBlocks: efficient sparse training with mixture-of-experts, MLSys 2023;
//           jax.lax.ragged_dot
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using detail::Gradients;

/// GroupedExtents of T rows of K numbers, and of G groups.
struct GroupedExtents {
  int64_t rows, inner, columns, groups;
};

/// w as it is stored: [G, K, N], or [G, N, K] when the attribute is transposed.
struct Weights {
  bool transposed;

  explicit Weights(const OpView& op) : transposed(op.attributes.boolean("transposed")) {}
  int inner_dim() const { return transposed ? 2 : 1; }
  int column_dim() const { return transposed ? 1 : 2; }
};

GroupedExtents matmul_extents(const OpView& op) {
  const Weights weights(op);
  const Shape &x = op.inputs[0].shape, &w = op.inputs[1].shape;
  return {x[0], x[1], w[weights.column_dim()], w[0]};
}

void expect_rank(std::string_view kind, const OpView& op, size_t input, std::string_view letter,
                 std::string_view dims, int rank) {
  if (op.inputs[input].shape.size() == rank) return;
  detail::refuse(kind, op,
                 std::string(letter) + " " + to_text(op.inputs[input]) + " has not the dims " +
                     std::string(dims),
                 std::string(kind) + " takes " + std::string(letter) + " " + std::string(dims),
                 "reshape the operand");
}

void expect_grouped(std::string_view kind, const OpView& op, std::string_view letter) {
  detail::expect_operands(kind, op, 3);
  detail::expect_dtype(kind, op, 0, "x", {DType::kF32});
  detail::expect_dtype(kind, op, 1, letter, {DType::kF32});
  detail::expect_equal_dtypes(kind, op, 0, "x", 1, letter);
  detail::expect_dtype(kind, op, 2, "sizes", {DType::kI32});
  expect_rank(kind, op, 0, "x", "[T, K]", 2);
  expect_rank(kind, op, 2, "sizes", "[G]", 1);
}

/// Calls visit(row, group) for each row that belongs to a group.
template <typename Visit>
void for_each_row(const ReferenceTensor& sizes, int64_t rows, Visit visit) {
  int64_t row = 0;
  for (size_t group = 0; group < sizes.values.size(); ++group)
    for (int64_t left = static_cast<int64_t>(sizes.values[group]); left > 0 && row < rows; --left)
      visit(row++, static_cast<int64_t>(group));
}

Work product_work(const OpView& op, const GroupedExtents& e) {
  return {Flops(2.0 * static_cast<double>(e.rows) * static_cast<double>(e.inner) *
                static_cast<double>(e.columns)),
          detail::operand_bytes(op)};
}

// grouped_matmul

std::vector<TensorType> infer_matmul(const OpView& op) {
  constexpr std::string_view kName = "grouped_matmul";
  expect_grouped(kName, op, "w");
  const Weights weights(op);
  expect_rank(kName, op, 1, "w", weights.transposed ? "[G, N, K]" : "[G, K, N]", 3);
  const Shape &x = op.inputs[0].shape, &w = op.inputs[1].shape;
  if (x[1] != w[weights.inner_dim()])
    detail::refuse(kName, op,
                   "x " + to_text(op.inputs[0]) + " does not fit w " + to_text(op.inputs[1]),
                   std::string("grouped_matmul takes x [T, K] and w ") +
                       (weights.transposed ? "[G, N, K]" : "[G, K, N]") + " with the same K",
                   "store w the other way round, or check the size of the layer that produces x");
  if (op.inputs[2].shape[0] != w[0])
    detail::refuse(kName, op,
                   "sizes " + to_text(op.inputs[2]) + " do not fit w " + to_text(op.inputs[1]),
                   "each group has a matrix and a size", "give as many sizes as w has matrices");
  return {{detail::sum_dtype(kName, op, op.inputs[0].dtype), {x[0], w[weights.column_dim()]}}};
}

// The kernel must know the begins of the parts of rows and groups.
constexpr size_t kRowFactor = 0, kGroupFactor = 1;

/// A rank that holds some of the groups leaves zeros for the rows of others. It sums all sizes to
/// find its own rows, so the sizes are whole.
ShardingRule rule_matmul(const OpView& op) {
  const GroupedExtents e = matmul_extents(op);
  ShardingRule rule;
  const int t = detail::add_factor(rule, "t", e.rows);
  const int g =
      detail::add_factor(rule, "g", e.groups, FactorKind::kMaskedReduction, ReduceOp::kSum);
  const int k = detail::add_factor(rule, "k", e.inner, FactorKind::kReduction, ReduceOp::kSum);
  const int n = detail::add_factor(rule, "n", e.columns);
  const OperandFactors w = Weights(op).transposed ? OperandFactors{{g, 1}, {n, 1}, {k, 1}}
                                                  : OperandFactors{{g, 1}, {k, 1}, {n, 1}};
  rule.inputs = {{{t, 1}, {k, 1}}, w, {{-1, 1}}};
  rule.outputs = {{{t, 1}, {n, 1}}};
  rule.linear = {{0}, {1}};
  return rule;
}

Work work_matmul(const OpView& op) {
  return product_work(op, matmul_extents(op));
}

KernelCall kernel_matmul(const OpView& op, std::span<const Split> factors) {
  return detail::kernel_call(
      "grouped_matmul", {int64_t{Weights(op).transposed}, LocalInt::begin_of(factors[kRowFactor]),
                         LocalInt::begin_of(factors[kGroupFactor])});
}

/// Adds term(x, w) for each pair that contributes to an element of the result.
template <typename Term>
void sum_products(const ReferenceCall& call, std::vector<double>& out, Term term) {
  const GroupedExtents e = matmul_extents(call.op);
  const bool transposed = Weights(call.op).transposed;
  const std::vector<double>&x = call.inputs[0]->values, &w = call.inputs[1]->values;
  for_each_row(*call.inputs[2], e.rows, [&](int64_t t, int64_t g) {
    for (int64_t n = 0; n < e.columns; ++n)
      for (int64_t k = 0; k < e.inner; ++k) {
        const int64_t at =
            transposed ? (g * e.columns + n) * e.inner + k : (g * e.inner + k) * e.columns + n;
        out[t * e.columns + n] += term(x[t * e.inner + k], w[at]);
      }
  });
}

void reference_matmul(const ReferenceCall& call) {
  sum_products(call, call.outputs[0].values, [](double x, double w) { return x * w; });
}

std::vector<double> tolerance_matmul(const ReferenceCall& call, int output) {
  std::vector<double> errors(call.outputs[0].values.size(), 0.0);
  sum_products(call, errors, [](double x, double w) { return std::abs(x * w); });
  const auto terms = static_cast<double>(matmul_extents(call.op).inner);
  for (double& error : errors)
    error = error == 0 ? 0 : detail::summation_error(terms, error, call.outputs[output].type.dtype);
  return errors;
}

Gradients gradient_matmul(Builder& builder, const GradientCall& call) {
  // These are copies, because building moves the ops of the graph.
  const ValueId x = call.op.inputs[0], w = call.op.inputs[1], sizes = call.op.inputs[2],
                flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(call.op.inputs[0]).dtype);
  const bool transposed = call.op.attributes.boolean("transposed"), wants_w = call.wanted[1];
  Gradients result(3);
  if (call.wanted[0])
    result[0] = builder.op1("grouped_matmul", {flow, w, sizes}, {{"transposed", !transposed}}, "x");
  // w [G, N, K] collects the products in the opposite order.
  if (wants_w)
    result[1] = builder.op1("grouped_outer",
                            transposed ? std::vector{flow, x, sizes} : std::vector{x, flow, sizes},
                            {}, "w");
  return result;
}

// grouped_outer

GroupedExtents outer_extents(const OpView& op) {
  return {op.inputs[0].shape[0], op.inputs[0].shape[1], op.inputs[1].shape[1],
          op.inputs[2].shape[0]};
}

std::vector<TensorType> infer_outer(const OpView& op) {
  constexpr std::string_view kName = "grouped_outer";
  expect_grouped(kName, op, "y");
  expect_rank(kName, op, 1, "y", "[T, N]", 2);
  if (op.inputs[0].shape[0] != op.inputs[1].shape[0])
    detail::refuse(kName, op,
                   "x " + to_text(op.inputs[0]) + " does not fit y " + to_text(op.inputs[1]),
                   "grouped_outer takes x [T, K] and y [T, N] with the same rows T",
                   "check the layers that produce them");
  const GroupedExtents e = outer_extents(op);
  return {{detail::sum_dtype(kName, op, op.inputs[0].dtype), {e.groups, e.inner, e.columns}}};
}

ShardingRule rule_outer(const OpView& op) {
  const GroupedExtents e = outer_extents(op);
  ShardingRule rule;
  const int t = detail::add_factor(rule, "t", e.rows, FactorKind::kReduction, ReduceOp::kSum);
  const int g = detail::add_factor(rule, "g", e.groups);
  const int k = detail::add_factor(rule, "k", e.inner);
  const int n = detail::add_factor(rule, "n", e.columns);
  rule.inputs = {{{t, 1}, {k, 1}}, {{t, 1}, {n, 1}}, {{-1, 1}}};
  rule.outputs = {{{g, 1}, {k, 1}, {n, 1}}};
  rule.linear = {{0}, {1}};
  return rule;
}

Work work_outer(const OpView& op) {
  return product_work(op, outer_extents(op));
}

KernelCall kernel_outer(const OpView&, std::span<const Split> factors) {
  return detail::kernel_call("grouped_outer", {LocalInt::begin_of(factors[kRowFactor]),
                                               LocalInt::begin_of(factors[kGroupFactor])});
}

/// Adds term(x, y) for each pair that contributes to an element of the result.
template <typename Term>
void sum_outer(const ReferenceCall& call, std::vector<double>& out, Term term) {
  const GroupedExtents e = outer_extents(call.op);
  const std::vector<double>&x = call.inputs[0]->values, &y = call.inputs[1]->values;
  for_each_row(*call.inputs[2], e.rows, [&](int64_t t, int64_t g) {
    for (int64_t k = 0; k < e.inner; ++k)
      for (int64_t n = 0; n < e.columns; ++n)
        out[(g * e.inner + k) * e.columns + n] += term(x[t * e.inner + k], y[t * e.columns + n]);
  });
}

void reference_outer(const ReferenceCall& call) {
  sum_outer(call, call.outputs[0].values, [](double x, double y) { return x * y; });
}

std::vector<double> tolerance_outer(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  sum_outer(call, terms, [](double, double) { return 1.0; });
  sum_outer(call, errors, [](double x, double y) { return std::abs(x * y); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = terms[i] == 0
                    ? 0
                    : detail::summation_error(terms[i], errors[i], call.outputs[output].type.dtype);
  return errors;
}

Gradients gradient_outer(Builder& builder, const GradientCall& call) {
  const ValueId x = call.op.inputs[0], y = call.op.inputs[1], sizes = call.op.inputs[2],
                flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(call.op.inputs[0]).dtype);
  const bool wants_y = call.wanted[1];
  Gradients result(3);
  if (call.wanted[0])
    result[0] = builder.op1("grouped_matmul", {y, flow, sizes}, {{"transposed", true}}, "x");
  if (wants_y)
    result[1] = builder.op1("grouped_matmul", {x, flow, sizes}, {{"transposed", false}}, "y");
  return result;
}

}  // namespace

std::span<const Operator> grouped_operators() {
  static const std::array operators{Operator{.name = "grouped_matmul",
                                             .precision = PrecisionClass::kNarrow,
                                             .infer = infer_matmul,
                                             .rule = rule_matmul,
                                             .work = work_matmul,
                                             .kernel = kernel_matmul,
                                             .reference = reference_matmul,
                                             .tolerance = tolerance_matmul,
                                             .gradient = gradient_matmul},
                                    Operator{.name = "grouped_outer",
                                             .precision = PrecisionClass::kNarrow,
                                             .infer = infer_outer,
                                             .rule = rule_outer,
                                             .work = work_outer,
                                             .kernel = kernel_outer,
                                             .reference = reference_outer,
                                             .tolerance = tolerance_outer,
                                             .gradient = gradient_outer}};
  return operators;
}

}  // namespace tessera
