// take_along_dim and scatter_add_along_dim: elements of each lane along one dim, selected by
// number. Each is the gradient of the other.
//
//     take_along_dim(x [.., R, ..], ids [.., I, ..]) -> [.., I, ..]
//         out[.., i, ..] = x[.., ids[.., i, ..], ..]
//
// As in gather, numbers outside the dim read zeros and write nothing.
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/along_dim.h"

namespace tessera {
namespace {

using detail::Gradients;
using detail::Lanes;

int gathered_dim(const OpView& op) {
  return static_cast<int>(op.attributes.integer("dim"));
}

/// The factor of the tensor's dim along the lanes, which comes first. One factor for each dim of
/// ids follows.
constexpr int kTensorFactor = 0;

/// The factors of ids, and of the tensor that has `extent` elements in each lane.
struct LaneFactors {
  OperandFactors ids, tensor;
};

LaneFactors add_lanes(ShardingRule& rule, const OpView& op, const Shape& ids, int64_t extent,
                      FactorKind of_tensor, FactorKind of_ids) {
  const ReduceOp reduce = detail::masked_reduce(op.inputs[0].dtype);
  const int along = detail::add_factor(rule, "rows", extent, of_tensor, reduce);
  LaneFactors factors;
  factors.ids = detail::add_lane_factors(rule, ids, gathered_dim(op), of_ids);
  for (DimFactor& dim : factors.ids)
    rule.factors[dim.factor].name = "i" + std::to_string(dim.factor - 1);
  factors.tensor = detail::with_dim(factors.ids, gathered_dim(op), along);
  return factors;
}

KernelCall lane_kernel(std::string name, const OpView& op, std::span<const Split> factors) {
  return detail::kernel_call(
      std::move(name), {int64_t{gathered_dim(op)}, LocalInt::begin_of(factors[kTensorFactor])});
}

/// Calls visit(position in ids, position in the tensor) for each number that is an index of the
/// tensor.
template <typename Visit>
void for_each_id(const ReferenceTensor& ids, const Shape& tensor, int dim, Visit visit) {
  const Lanes from(tensor, dim), to(ids.type.shape, dim);
  to.for_each([&](int64_t o, int64_t n) {
    for (int64_t i = 0; i < to.extent; ++i) {
      const double id = ids.values[to.at(o, i, n)];
      if (id >= 0 && id < static_cast<double>(from.extent))
        visit(to.at(o, i, n), from.at(o, static_cast<int64_t>(id), n));
    }
  });
}

// take_along_dim

std::vector<TensorType> infer_take(const OpView& op) {
  detail::expect_operands("take_along_dim", op, 2);
  detail::expect_dtype("take_along_dim", op, 1, "ids", {DType::kI32});
  const Shape &x = op.inputs[0].shape, &ids = op.inputs[1].shape;
  const int dim = detail::dim_attribute("take_along_dim", op, x.size());
  bool fits = ids.size() == x.size();
  for (int d = 0; fits && d < x.size(); ++d) fits = d == dim || ids[d] == x[d];
  if (!fits)
    detail::refuse(
        "take_along_dim", op,
        "ids " + to_text(op.inputs[1]) + " do not fit x " + to_text(op.inputs[0]),
        "ids have the dims of x, and may differ from it in dim " + std::to_string(dim) + " only",
        "reshape or broadcast ids to the dims of x");
  return {{op.inputs[0].dtype, ids}};
}

/// A rank that holds a range of x leaves zeros for the numbers outside it.
ShardingRule rule_take(const OpView& op) {
  ShardingRule rule;
  const int64_t extent = op.inputs[0].shape[gathered_dim(op)];
  const LaneFactors factors = add_lanes(rule, op, op.inputs[1].shape, extent,
                                        FactorKind::kMaskedReduction, FactorKind::kParallel);
  rule.inputs = {factors.tensor, factors.ids};
  rule.outputs = {factors.ids};
  rule.linear = {{0}};
  return rule;
}

/// Reads the elements that ids select, not all of x.
Work work_take(const OpView& op) {
  const Bytes taken = byte_size(op.outputs.at(0));
  return {Flops(0), byte_size(op.inputs[1]) + taken + taken};
}

KernelCall kernel_take(const OpView& op, std::span<const Split> factors) {
  return lane_kernel("take_along_dim", op, factors);
}

void reference_take(const ReferenceCall& call) {
  const ReferenceTensor& x = *call.inputs[0];
  for_each_id(*call.inputs[1], x.type.shape, gathered_dim(call.op),
              [&](size_t i, size_t at) { call.outputs[0].values[i] = x.values[at]; });
}

Gradients gradient_take(Builder& builder, const GradientCall& call) {
  const TensorType x = builder.type(call.op.inputs[0]);
  if (!call.wanted[0] || !is_float(x.dtype)) return {std::nullopt, std::nullopt};
  const int64_t dim = call.op.attributes.integer("dim");
  const Attributes attributes{{"dim", dim}, {"extent", x.shape[dim]}};
  return {builder.op1("scatter_add_along_dim",
                      {call.op.inputs[1], call.output_gradients.at(0).value()}, attributes, "x"),
          std::nullopt};
}

// scatter_add_along_dim

std::vector<TensorType> infer_scatter(const OpView& op) {
  constexpr std::string_view kName = "scatter_add_along_dim";
  detail::expect_operands(kName, op, 2);
  detail::expect_dtype(kName, op, 0, "ids", {DType::kI32});
  detail::expect_dtype(kName, op, 1, "updates", {DType::kF32});
  TensorType type = op.inputs[1];
  if (op.inputs[0].shape != type.shape)
    detail::refuse(kName, op,
                   "updates " + to_text(type) + " do not fit ids " + to_text(op.inputs[0]),
                   "each id has one update", "reshape or broadcast the operand that is wrong");
  const int dim = detail::dim_attribute(kName, op, type.shape.size());
  const int64_t extent = op.attributes.integer("extent");
  if (extent < 0)
    detail::refuse(kName, op, "extent = " + std::to_string(extent),
                   "the result has that many elements in dim " + std::to_string(dim),
                   "give a number that is not negative");
  type.shape[dim] = extent;
  return {type};
}

ShardingRule rule_scatter(const OpView& op) {
  ShardingRule rule;
  const int64_t extent = op.attributes.integer("extent");
  const LaneFactors factors = add_lanes(rule, op, op.inputs[0].shape, extent, FactorKind::kParallel,
                                        FactorKind::kReduction);
  rule.inputs = {factors.ids, factors.ids};
  rule.outputs = {factors.tensor};
  rule.linear = {{1}};
  return rule;
}

Work work_scatter(const OpView& op) {
  return {Flops(detail::elements_of(op.inputs[1].shape)), detail::operand_bytes(op)};
}

KernelCall kernel_scatter(const OpView& op, std::span<const Split> factors) {
  return lane_kernel("scatter_add_along_dim", op, factors);
}

/// Adds term(update) to the element that each id selects.
template <typename Term>
void add_updates_along(const ReferenceCall& call, std::vector<double>& out, Term term) {
  const std::vector<double>& updates = call.inputs[1]->values;
  for_each_id(*call.inputs[0], call.outputs[0].type.shape, gathered_dim(call.op),
              [&](size_t i, size_t at) { out[at] += term(updates[i]); });
}

void reference_scatter(const ReferenceCall& call) {
  add_updates_along(call, call.outputs[0].values, [](double update) { return update; });
}

std::vector<double> tolerance_scatter(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  add_updates_along(call, terms, [](double) { return 1.0; });
  add_updates_along(call, errors, [](double update) { return std::abs(update); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i], errors[i], call.outputs[output].type.dtype);
  return errors;
}

Gradients gradient_scatter(Builder& builder, const GradientCall& call) {
  if (!call.wanted[1]) return {std::nullopt, std::nullopt};
  const int64_t dim = call.op.attributes.integer("dim");
  const ValueId flow = call.output_gradients.at(0).value();
  return {std::nullopt,
          builder.op1("take_along_dim", {flow, call.op.inputs[0]}, {{"dim", dim}}, "updates")};
}

}  // namespace

std::span<const Operator> gather_along_operators() {
  static const std::array operators{Operator{.name = "take_along_dim",
                                             .precision = PrecisionClass::kLookup,
                                             .infer = infer_take,
                                             .rule = rule_take,
                                             .work = work_take,
                                             .kernel = kernel_take,
                                             .reference = reference_take,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_take},
                                    Operator{.name = "scatter_add_along_dim",
                                             .infer = infer_scatter,
                                             .rule = rule_scatter,
                                             .work = work_scatter,
                                             .kernel = kernel_scatter,
                                             .reference = reference_scatter,
                                             .tolerance = tolerance_scatter,
                                             .gradient = gradient_scatter}};
  return operators;
}

}  // namespace tessera
