// reduce: dims are reduced to a sum, maximum, minimum, product, any or all.
#include "base/tensor/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

using detail::Gradients;

ReduceOp reduction_of(const OpView& op) {
  return parse_reduce_op(op.attributes.text("op"));
}

const std::vector<int64_t>& reduced_dims(const OpView& op) {
  return op.attributes.integers("dims");
}

bool is_reduced(const OpView& op, int dim) {
  const std::vector<int64_t>& dims = reduced_dims(op);
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void check_dims(const OpView& op) {
  const int rank = op.inputs[0].shape.size();
  std::vector<int64_t> dims = reduced_dims(op);
  std::sort(dims.begin(), dims.end());
  const bool repeated = std::adjacent_find(dims.begin(), dims.end()) != dims.end();
  const bool outside = !dims.empty() && (dims.front() < 0 || dims.back() >= rank);
  if (!repeated && !outside) return;
  detail::refuse(
      "reduce", op,
      "dims " + to_text(Attribute(reduced_dims(op))) + " do not fit x " + to_text(op.inputs[0]),
      "each dim to reduce is listed once, counted from 0, and x has " + std::to_string(rank) +
          " dims",
      "correct the list of dims");
}

std::vector<TensorType> infer_reduce(const OpView& op) {
  detail::expect_operands("reduce", op, 1);
  const ReduceOp reduction = reduction_of(op);
  if (reduction == ReduceOp::kAny || reduction == ReduceOp::kAll)
    detail::expect_dtype("reduce", op, 0, "x", {DType::kBool});
  else
    detail::expect_dtype("reduce", op, 0, "x", {DType::kF32, DType::kI32});
  if (reduction == ReduceOp::kProd && is_narrow_float(op.inputs[0].dtype))
    detail::refuse("reduce", op, "x " + to_text(op.inputs[0]) + " is multiplied in 16 bits",
                   "products of many numbers leave the range of f16, and the digits of bf16",
                   "cast x to f32");
  check_dims(op);
  DType dtype = op.inputs[0].dtype;
  if (reduction == ReduceOp::kSum) dtype = detail::sum_dtype("reduce", op, dtype);
  TensorType type{dtype, {}};
  for (int d = 0; d < op.inputs[0].shape.size(); ++d)
    if (!is_reduced(op, d)) type.shape.push_back(op.inputs[0].shape[d]);
  return {type};
}

ShardingRule rule_reduce(const OpView& op) {
  ShardingRule result;
  result.inputs = {detail::add_factors(result, op.inputs[0].shape)};
  result.outputs = {{}};
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) {
    if (!is_reduced(op, d)) {
      result.outputs[0].push_back({d, 1});
      continue;
    }
    result.factors[d].kind = FactorKind::kReduction;
    result.factors[d].reduce = reduction_of(op);
  }
  if (reduction_of(op) == ReduceOp::kSum) result.linear = {{0}};
  return result;
}

Work work_reduce(const OpView& op) {
  return {Flops(detail::elements_of(op.inputs[0].shape)), detail::operand_bytes(op)};
}

KernelCall kernel_reduce(const OpView& op, std::span<const Split>) {
  KernelCall call = detail::kernel_call("reduce." + op.attributes.text("op"));
  for (int64_t dim : reduced_dims(op)) call.ints.emplace_back(dim);
  return call;
}

/// The result of reducing no elements.
double empty_reduction(ReduceOp reduction, DType dtype) {
  return dtype == DType::kI32 ? identity_of<int32_t>(reduction) : identity_of<double>(reduction);
}

/// Calls visit(position in x, position in the result) for every element of x, in row-major order.
template <typename Visit>
void for_each_element(const ReferenceCall& call, Visit visit) {
  const Shape& in = call.inputs[0]->type.shape;
  const Dims out_strides = row_major_strides(call.outputs[0].type.shape);
  Dims strides;  // by dim of x: the offset in the result; 0 along a reduced dim
  int kept = 0;
  for (int d = 0; d < in.size(); ++d)
    strides.push_back(is_reduced(call.op, d) ? 0 : out_strides[kept++]);
  Dims index = Dims::filled(in.size(), 0);
  for (size_t i = 0; i < call.inputs[0]->values.size(); ++i) {
    int64_t position = 0;
    for (int d = 0; d < in.size(); ++d) position += index[d] * strides[d];
    visit(i, position);
    advance_index(index, in);
  }
}

void reference_reduce(const ReferenceCall& call) {
  const ReduceOp reduction = reduction_of(call.op);
  std::vector<double>& out = call.outputs[0].values;
  std::fill(out.begin(), out.end(), empty_reduction(reduction, call.op.inputs[0].dtype));
  for_each_element(call, [&](size_t i, size_t o) {
    out[o] = combine(reduction, out[o], call.inputs[0]->values[i]);
  });
}

double reduced_count(const OpView& op) {
  double count = 1;
  for (int64_t dim : reduced_dims(op)) count *= static_cast<double>(op.inputs[0].shape[dim]);
  return count;
}

/// The tolerance of a sum of n numbers follows from its absolute terms, that of a product of n
/// factors from n roundings of the result. The others select an element.
std::vector<double> tolerance_reduce(const ReferenceCall& call, int output) {
  const ReduceOp reduction = reduction_of(call.op);
  const double count = reduced_count(call.op);
  if (!is_float(call.op.inputs[0].dtype)) return detail::exact(call, output);
  if (reduction == ReduceOp::kProd) return detail::rounded(call, output, count);
  if (reduction != ReduceOp::kSum) return detail::exact(call, output);
  std::vector<double> errors(call.outputs[0].values.size(), 0.0);
  for_each_element(call,
                   [&](size_t i, size_t o) { errors[o] += std::abs(call.inputs[0]->values[i]); });
  for (double& error : errors)
    error = detail::summation_error(count, error, call.outputs[output].type.dtype);
  return errors;
}

/// The data with which a gradient is expanded from the result's shape to x's.
struct Expansion {
  Builder& builder;
  Shape shape;                // of x
  std::vector<int64_t> kept;  // the dims of x that the result has
  std::vector<int64_t> reduced;

  ValueId operator()(ValueId value, std::string_view name = {}) const {
    return builder.broadcast(value, shape, kept, name);
  }
};

/// The extreme elements share the gradient: each of n equal ones gets 1/n of it.
ValueId extreme_gradient(const Expansion& expand, ValueId x, ValueId out, ValueId flow) {
  Builder& builder = expand.builder;
  const TensorType type = builder.type(x);
  const ValueId is_extreme = builder.compare("eq", x, expand(out));
  const ValueId count =
      builder.reduce_sum(builder.cast(is_extreme, type.dtype), expand.reduced, "count");
  const ValueId share = builder.div(flow, count, "share");
  return builder.select(is_extreme, expand(share), builder.constant(type, 0), "x");
}

/// d out / d x_i is the product of the others, out / x_i, which is valid where no element is zero.
ValueId product_gradient(const Expansion& expand, ValueId x, ValueId out, ValueId flow) {
  return expand.builder.div(expand(expand.builder.mul(flow, out)), x, "x");
}

Gradients gradient_reduce(Builder& builder, const GradientCall& call) {
  const ReduceOp reduction = parse_reduce_op(call.op.attributes.text("op"));
  const ValueId x = call.op.inputs[0], out = call.op.outputs[0],
                flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(x).dtype);
  Expansion expand{builder, builder.shape(x), {}, call.op.attributes.integers("dims")};
  for (int d = 0; d < expand.shape.size(); ++d)
    if (std::find(expand.reduced.begin(), expand.reduced.end(), d) == expand.reduced.end())
      expand.kept.push_back(d);
  switch (reduction) {
    case ReduceOp::kSum: return {expand(flow, "x")};
    case ReduceOp::kMax:
    case ReduceOp::kMin: return {extreme_gradient(expand, x, out, flow)};
    case ReduceOp::kProd: return {product_gradient(expand, x, out, flow)};
    case ReduceOp::kAny:
    case ReduceOp::kAll: return {std::nullopt};
  }
  throw InternalError("unknown reduction");
}

}  // namespace

std::span<const Operator> reduce_operators() {
  static const std::array operators{Operator{.name = "reduce",
                                             .infer = infer_reduce,
                                             .rule = rule_reduce,
                                             .work = work_reduce,
                                             .kernel = kernel_reduce,
                                             .reference = reference_reduce,
                                             .tolerance = tolerance_reduce,
                                             .gradient = gradient_reduce}};
  return operators;
}

}  // namespace tessera
