// argmax, argmin, sort and top_k: compare elements along one dim with each other. That dim stays
// whole; the others are parallel.
//
// Ties go to the lowest index. In an order a NaN is greater than all numbers; argmax and argmin
// both select the first NaN, as max and min do.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/along_dim.h"

namespace tessera {
namespace {

using detail::Gradients;
using detail::Lanes;

int ordered_dim(const OpView& op) {
  return static_cast<int>(op.attributes.integer("dim"));
}

void check_operand(std::string_view kind, const OpView& op) {
  detail::expect_operands(kind, op, 1);
  detail::expect_dtype(kind, op, 0, "x", {DType::kF32, DType::kI32});
  detail::dim_attribute(kind, op, op.inputs[0].shape.size());
}

bool is_below(double a, double b) {
  return a < b || (std::isnan(b) && !std::isnan(a));
}

/// The number of comparisons in a lane of n elements: n log2 n for an order, n for the first.
double comparisons(const OpView& op, bool is_order) {
  const Shape& x = op.inputs[0].shape;
  const auto extent = static_cast<double>(x[ordered_dim(op)]);
  return detail::elements_of(x) * (is_order ? std::max(1.0, std::log2(extent)) : 1.0);
}

// argmax, argmin

template <bool kLargest>
constexpr std::string_view kArgName = kLargest ? "argmax" : "argmin";

template <bool kLargest>
std::vector<TensorType> infer_arg(const OpView& op) {
  constexpr std::string_view kName = kArgName<kLargest>;
  check_operand(kName, op);
  const Shape& x = op.inputs[0].shape;
  if (x[ordered_dim(op)] == 0)
    detail::refuse(
        kName, op,
        "dim " + std::to_string(ordered_dim(op)) + " of x " + to_text(op.inputs[0]) + " is empty",
        "of no elements none is the " + std::string(kLargest ? "largest" : "smallest"),
        "check the layer that produces x");
  TensorType type{DType::kI32, {}};
  for (int d = 0; d < x.size(); ++d)
    if (d != ordered_dim(op)) type.shape.push_back(x[d]);
  return {type};
}

ShardingRule rule_arg(const OpView& op) {
  ShardingRule rule;
  rule.inputs = {detail::add_lane_factors(rule, op.inputs[0].shape, ordered_dim(op))};
  OperandFactors out = rule.inputs[0];
  out.erase(out.begin() + ordered_dim(op));
  rule.outputs = {out};
  return rule;
}

Work work_arg(const OpView& op) {
  return {Flops(comparisons(op, false)), detail::operand_bytes(op)};
}

template <bool kLargest>
KernelCall kernel_arg(const OpView& op, std::span<const Split>) {
  return detail::kernel_call(std::string(kArgName<kLargest>), {int64_t{ordered_dim(op)}});
}

template <bool kLargest>
void reference_arg(const ReferenceCall& call) {
  const std::vector<double>& x = call.inputs[0]->values;
  const Lanes lanes(call.inputs[0]->type.shape, ordered_dim(call.op));
  size_t out = 0;
  lanes.for_each([&](int64_t o, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < lanes.extent; ++i) {
      const double candidate = x[lanes.at(o, i, n)], known = x[lanes.at(o, best, n)];
      const bool is_better = kLargest ? candidate > known : candidate < known;
      if (!std::isnan(known) && (is_better || std::isnan(candidate))) best = i;
    }
    call.outputs[0].values[out++] = static_cast<double>(best);
  });
}

Decision decision_arg(const OpView& op) {
  if (!is_float(op.inputs[0].dtype)) return {};
  return {.operands = {0}, .results = {0}};
}

template <bool kLargest>
Operator arg_operator() {
  return {.name = kArgName<kLargest>,
          .precision = PrecisionClass::kGiven,
          .infer = infer_arg<kLargest>,
          .rule = rule_arg,
          .work = work_arg,
          .kernel = kernel_arg<kLargest>,
          .reference = reference_arg<kLargest>,
          .tolerance = detail::exact,
          .gradient = nullptr,
          .decision = decision_arg};
}

// sort, top_k: values and the indices that they had

/// The elements of a lane in order, of which the first `count` are wanted.
struct Order {
  int dim;
  int64_t count;
  bool descending;
};

Order order_of(const OpView& op) {
  if (op.attributes.has("k")) return {ordered_dim(op), op.attributes.integer("k"), true};
  return {ordered_dim(op), op.inputs[0].shape[ordered_dim(op)],
          op.attributes.boolean("descending")};
}

std::vector<TensorType> ordered_types(const OpView& op) {
  TensorType values = op.inputs[0];
  values.shape[ordered_dim(op)] = order_of(op).count;
  return {values, {DType::kI32, values.shape}};
}

std::vector<TensorType> infer_sort(const OpView& op) {
  check_operand("sort", op);
  return ordered_types(op);
}

std::vector<TensorType> infer_top_k(const OpView& op) {
  check_operand("top_k", op);
  const int64_t k = op.attributes.integer("k"), extent = op.inputs[0].shape[ordered_dim(op)];
  if (k < 0 || k > extent)
    detail::refuse("top_k", op,
                   "k = " + std::to_string(k) + " of dim " + std::to_string(ordered_dim(op)) +
                       " of x " + to_text(op.inputs[0]),
                   "there are " + std::to_string(extent) + " elements to choose from",
                   "use 0 to " + std::to_string(extent));
  return ordered_types(op);
}

ShardingRule rule_order(const OpView& op) {
  ShardingRule rule;
  const Order order = order_of(op);
  const OperandFactors x = detail::add_lane_factors(rule, op.inputs[0].shape, order.dim);
  OperandFactors out = x;
  if (op.attributes.has("k"))
    out = detail::with_dim(x, order.dim,
                           detail::add_factor(rule, "d" + std::to_string(order.dim) + "_out",
                                              order.count, FactorKind::kWhole));
  rule.inputs = {x};
  rule.outputs = {out, out};
  return rule;
}

Work work_order(const OpView& op) {
  return {Flops(comparisons(op, true)), detail::operand_bytes(op)};
}

KernelCall kernel_sort(const OpView& op, std::span<const Split>) {
  const Order order = order_of(op);
  return detail::kernel_call("sort", {int64_t{order.dim}, int64_t{order.descending}});
}

void reference_order(const ReferenceCall& call) {
  const std::vector<double>& x = call.inputs[0]->values;
  const Order order = order_of(call.op);
  const Lanes lanes(call.inputs[0]->type.shape, order.dim),
      out(call.outputs[0].type.shape, order.dim);
  lanes.for_each([&](int64_t o, int64_t n) {
    std::vector<int64_t> indices(lanes.extent);
    std::iota(indices.begin(), indices.end(), 0);
    std::stable_sort(indices.begin(), indices.end(), [&](int64_t i, int64_t j) {
      const double a = x[lanes.at(o, i, n)], b = x[lanes.at(o, j, n)];
      return order.descending ? is_below(b, a) : is_below(a, b);
    });
    for (int64_t i = 0; i < order.count; ++i) {
      const int64_t from = indices[i];
      call.outputs[0].values[out.at(o, i, n)] = x[lanes.at(o, from, n)];
      call.outputs[1].values[out.at(o, i, n)] = static_cast<double>(from);
    }
  });
}

/// The indices jump where elements change their order; the values in order do not.
Decision decision_order(const OpView& op) {
  if (!is_float(op.inputs[0].dtype)) return {};
  return {.operands = {0}, .results = {1}};
}

/// Each gradient goes to the position from which its value came.
Gradients gradient_order(Builder& builder, const GradientCall& call) {
  const TensorType x = builder.type(call.op.inputs[0]);
  if (!is_float(x.dtype) || !call.output_gradients.at(0)) return {std::nullopt};
  const int64_t dim = call.op.attributes.integer("dim");
  const Attributes attributes{{"dim", dim}, {"extent", x.shape[dim]}};
  return {builder.op1("scatter_add_along_dim", {call.op.outputs[1], *call.output_gradients[0]},
                      attributes, "x")};
}

Operator order_operator(std::string_view name, PrecisionClass precision,
                        std::vector<TensorType> (*infer)(const OpView&)) {
  return {.name = name,
          .precision = precision,
          .infer = infer,
          .rule = rule_order,
          .work = work_order,
          .kernel = kernel_sort,
          .reference = reference_order,
          .tolerance = detail::exact,
          .gradient = gradient_order,
          .decision = decision_order};
}

}  // namespace

std::span<const Operator> order_operators() {
  static const std::array operators{arg_operator<true>(), arg_operator<false>(),
                                    order_operator("sort", PrecisionClass::kWide, infer_sort),
                                    order_operator("top_k", PrecisionClass::kGiven, infer_top_k)};
  return operators;
}

}  // namespace tessera
