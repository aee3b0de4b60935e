// max_pool, average_pool and their gradients: x[N, C, in...] -> y[N, C, out...], one value for each
// position of a window.
//
// Padding does not count: it is minus infinity for a maximum, and no element of an average unless
// the op counts it. Of equal elements the first is the largest; NaN is greater than every number.
#include <array>
#include <cmath>
#include <limits>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/spatial_dims.h"

namespace tessera {
namespace {

using detail::Gradients;
using detail::SpatialDim;
using detail::Tap;

using SpatialDims = std::vector<SpatialDim>;

/// The attribute with which an average counts the padding too.
constexpr const char* kCountsPadding = "counts_padding";

/// Refuses padding of a whole window, because there would be positions without elements.
void expect_narrow_padding(std::string_view kind, const OpView& op, const SpatialDims& dims) {
  for (const SpatialDim& dim : dims)
    if (dim.low >= dim.window || dim.high >= dim.window)
      detail::refuse(kind, op,
                     "padding of " + std::to_string(dim.low) + " and " + std::to_string(dim.high) +
                         " around a window of " + std::to_string(dim.window),
                     "a window must see something at each place",
                     "pad less than the window is wide");
}

SpatialDims pooled_dims(std::string_view kind, const OpView& op, const Shape& in) {
  const Shape window =
      detail::shape_of(detail::spatial_attribute(kind, op, "window", in.size(), 1));
  SpatialDims dims = detail::spatial_dims(kind, op, in, window, true);
  expect_narrow_padding(kind, op, dims);
  return dims;
}

/// The dims of an op whose operand `input` is x.
SpatialDims dims_of_x(std::string_view kind, const OpView& op) {
  return pooled_dims(kind, op, detail::space_of(op.inputs[0].shape));
}

/// The dims of a gradient that has no operand x.
SpatialDims dims_of_extents(std::string_view kind, const OpView& op) {
  const int count = op.inputs[0].shape.size() - detail::kFirstSpatialDim;
  return pooled_dims(kind, op,
                     detail::shape_of(detail::spatial_attribute(kind, op, "extents", count, 0)));
}

TensorType like(const TensorType& type, const Shape& space) {
  return {type.dtype, detail::with_space(type.shape[0], type.shape[1], space)};
}

void expect_places(std::string_view kind, const OpView& op, int input, const SpatialDims& dims) {
  const TensorType& type = op.inputs[input];
  const TensorType expected = like(op.inputs[0], out_space(dims));
  if (type == expected) return;
  detail::refuse(kind, op, "dy " + to_text(type) + " does not fit the places of the window",
                 "a window over [" + to_text(in_space(dims)) + "] has the places [" +
                     to_text(out_space(dims)) + "]",
                 "give the gradient of what the pooling gave");
}

// Rules

/// Batch, channels and space of both sides of a pooling.
struct Sides {
  ShardingRule rule;
  OperandFactors x, y;
};

/// Batch and channels are parallel.
Sides sides_of(const OpView& op) {
  Sides sides;
  const int batch = detail::add_factor(sides.rule, "n", op.inputs[0].shape[0]);
  const int channels = detail::add_factor(sides.rule, "c", op.inputs[0].shape[1]);
  sides.x = sides.y = {{batch, 1}, {channels, 1}};
  return sides;
}

/// Parts of the positions need the elements that they read.
Sides sides_by_places(const OpView& op, const SpatialDims& dims) {
  Sides sides = sides_of(op);
  detail::add_places(sides.rule, dims, FactorKind::kParallel, sides.y, sides.x);
  return sides;
}

/// Parts of x need the positions that read them.
Sides sides_by_positions(const OpView& op, const SpatialDims& dims) {
  Sides sides = sides_of(op);
  detail::add_positions(sides.rule, dims, sides.x, sides.y);
  return sides;
}

/// y = f(x)
ShardingRule forward_rule(Sides sides) {
  sides.rule.inputs = {sides.x};
  sides.rule.outputs = {sides.y};
  return sides.rule;
}

// Reference

size_t size_of_space(const Shape& space) {
  return element_count(space);
}

/// Calls visit(position in y, position in x) for all elements that windows read, in the order of y.
template <typename Visit>
void for_each_seen(const OpView& op, const SpatialDims& dims, Visit visit) {
  const std::vector<Tap> taps = taps_of(dims);
  const size_t planes = op.inputs[0].shape[0] * op.inputs[0].shape[1];
  const size_t in_size = size_of_space(in_space(dims)), out_size = size_of_space(out_space(dims));
  for (size_t plane = 0; plane < planes; ++plane)
    for (const Tap& tap : taps) visit(plane * out_size + tap.out, plane * in_size + tap.in);
}

constexpr size_t kNone = std::numeric_limits<size_t>::max();

/// The position of the largest element of x that each window reads.
std::vector<size_t> largest_places(const ReferenceCall& call, const SpatialDims& dims,
                                   size_t places) {
  const std::vector<double>& x = call.inputs[0]->values;
  std::vector<size_t> best(places, kNone);
  for_each_seen(call.op, dims, [&](size_t y, size_t position) {
    const bool is_first = best[y] == kNone;
    const bool exceeds = is_first || x[position] > x[best[y]] ||
                         (std::isnan(x[position]) && !std::isnan(x[best[y]]));
    if (exceeds) best[y] = position;
  });
  return best;
}

/// The number of elements of each average.
std::vector<double> counts_of(const OpView& op, const SpatialDims& dims, size_t places) {
  if (op.attributes.boolean(kCountsPadding))
    return std::vector<double>(places, static_cast<double>(size_of_space(window_space(dims))));
  std::vector<double> counts(places, 0.0);
  for_each_seen(op, dims, [&](size_t y, size_t) { counts[y] += 1; });
  return counts;
}

/// The work of `planes` of x and y together: an operation for each element that a window reads.
Work pooled_work(const OpView& op, const SpatialDims& dims) {
  const auto planes = static_cast<double>(op.inputs[0].shape[0] * op.inputs[0].shape[1]);
  return {Flops(planes * static_cast<double>(size_of_space(window_space(dims)) *
                                             size_of_space(out_space(dims)))),
          detail::operand_bytes(op)};
}

Attributes window_attributes(const Attributes& attributes) {
  Attributes result;
  for (const char* name : {"window", "stride", "low", "high"})
    result.set(name, attributes.integers(name));
  return result;
}

// max_pool

std::vector<TensorType> infer_max(const OpView& op) {
  detail::expect_operands("max_pool", op, 1);
  detail::expect_image("max_pool", op, 0, "x");
  return {like(op.inputs[0], out_space(dims_of_x("max_pool", op)))};
}

ShardingRule rule_max(const OpView& op) {
  return forward_rule(sides_by_places(op, dims_of_x("max_pool", op)));
}

Work work_max(const OpView& op) {
  return pooled_work(op, dims_of_x("max_pool", op));
}

KernelCall kernel_max(const OpView& op, std::span<const Split> factors) {
  const SpatialDims dims = dims_of_x("max_pool", op);
  const Sides sides = sides_by_places(op, dims);
  return detail::kernel_call("max_pool", spatial_ints(dims, sides.x, sides.y, factors));
}

void reference_max(const ReferenceCall& call) {
  std::vector<double>& y = call.outputs[0].values;
  const std::vector<size_t> best = largest_places(call, dims_of_x("max_pool", call.op), y.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = best[i] == kNone ? -std::numeric_limits<double>::infinity()
                            : call.inputs[0]->values[best[i]];
}

Gradients gradient_max(Builder& builder, const GradientCall& call) {
  const ValueId x = call.op.inputs[0], flow = call.output_gradients.at(0).value();
  return {builder.op1("max_pool_grad", {x, flow}, window_attributes(call.op.attributes), "x")};
}

// max_pool_grad: the gradient of a window goes to its largest element. The choice of that element
// has no gradient, and the second gradient is not built.

std::vector<TensorType> infer_max_grad(const OpView& op) {
  detail::expect_operands("max_pool_grad", op, 2);
  detail::expect_image("max_pool_grad", op, 0, "x");
  detail::expect_image("max_pool_grad", op, 1, "dy");
  expect_places("max_pool_grad", op, 1, dims_of_x("max_pool_grad", op));
  return {op.inputs[0]};
}

/// All of x that is needed with a part of it: whole windows, to find the largest element of each.
OperandFactors seen_around(const SpatialDims& dims, OperandFactors x) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t around = dims[d].window - 1;
    const Window window{dims[d].in, dims[d].in, 1, 1, -around, around};
    if (!window.is_identity()) x[d + detail::kFirstSpatialDim].window = window;
  }
  return x;
}

ShardingRule rule_max_grad(const OpView& op) {
  const SpatialDims dims = dims_of_x("max_pool_grad", op);
  Sides sides = sides_by_positions(op, dims);
  sides.rule.inputs = {seen_around(dims, sides.x), sides.y};
  sides.rule.outputs = {sides.x};
  sides.rule.linear = {{1}};
  return sides.rule;
}

Work work_max_grad(const OpView& op) {
  return pooled_work(op, dims_of_x("max_pool_grad", op));
}

KernelCall kernel_max_grad(const OpView& op, std::span<const Split> factors) {
  const SpatialDims dims = dims_of_x("max_pool_grad", op);
  const ShardingRule rule = rule_max_grad(op);
  KernelCall call = detail::kernel_call(
      "max_pool_grad", spatial_ints(dims, rule.inputs[0], rule.inputs[1], factors));
  for (size_t d = 0; d < dims.size(); ++d)
    call.ints.push_back(detail::begin_of(rule.outputs[0][d + detail::kFirstSpatialDim], factors));
  return call;
}

/// Adds term(dy of a window) to the window's largest element.
template <typename Term>
void add_to_largest(const ReferenceCall& call, std::vector<double>& dx, Term term) {
  const std::vector<double>& dy = call.inputs[1]->values;
  const std::vector<size_t> best =
      largest_places(call, dims_of_x("max_pool_grad", call.op), dy.size());
  for (size_t i = 0; i < dy.size(); ++i)
    if (best[i] != kNone) dx[best[i]] += term(dy[i]);
}

void reference_max_grad(const ReferenceCall& call) {
  add_to_largest(call, call.outputs[0].values, [](double dy) { return dy; });
}

/// The elements of x decide where the gradient of a window goes.
Decision decision_max_grad(const OpView&) {
  return {.operands = {0}, .results = {0}};
}

std::vector<double> tolerance_max_grad(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  add_to_largest(call, terms, [](double) { return 1.0; });
  add_to_largest(call, errors, [](double dy) { return std::abs(dy); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i], errors[i], call.outputs[output].type.dtype);
  return errors;
}

// average_pool

std::vector<LocalInt> average_ints(const OpView& op, const SpatialDims& dims, const Sides& sides,
                                   std::span<const Split> factors) {
  std::vector<LocalInt> ints = spatial_ints(dims, sides.x, sides.y, factors);
  ints.emplace_back(op.attributes.boolean(kCountsPadding) ? 1 : 0);
  return ints;
}

std::vector<TensorType> infer_average(const OpView& op) {
  detail::expect_operands("average_pool", op, 1);
  detail::expect_image("average_pool", op, 0, "x");
  return {like(op.inputs[0], out_space(dims_of_x("average_pool", op)))};
}

ShardingRule rule_average(const OpView& op) {
  ShardingRule rule = forward_rule(sides_by_places(op, dims_of_x("average_pool", op)));
  rule.linear = {{0}};
  return rule;
}

Work work_average(const OpView& op) {
  return pooled_work(op, dims_of_x("average_pool", op));
}

KernelCall kernel_average(const OpView& op, std::span<const Split> factors) {
  const SpatialDims dims = dims_of_x("average_pool", op);
  return detail::kernel_call("average_pool",
                             average_ints(op, dims, sides_by_places(op, dims), factors));
}

void reference_average(const ReferenceCall& call) {
  const SpatialDims dims = dims_of_x("average_pool", call.op);
  std::vector<double>& y = call.outputs[0].values;
  const std::vector<double> counts = counts_of(call.op, dims, y.size());
  for_each_seen(call.op, dims, [&](size_t place, size_t position) {
    y[place] += call.inputs[0]->values[position] / counts[place];
  });
}

/// The error of a sum and a division.
std::vector<double> tolerance_average(const ReferenceCall& call, int output) {
  const SpatialDims dims = dims_of_x("average_pool", call.op);
  std::vector<double> errors(call.outputs[0].values.size(), 0.0);
  const std::vector<double> counts = counts_of(call.op, dims, errors.size());
  for_each_seen(call.op, dims, [&](size_t place, size_t position) {
    errors[place] += std::abs(call.inputs[0]->values[position] / counts[place]);
  });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(counts[i] + 2, errors[i], call.outputs[output].type.dtype);
  return errors;
}

Gradients gradient_average(Builder& builder, const GradientCall& call) {
  const Shape space = detail::space_of(builder.shape(call.op.inputs[0]));
  Attributes attributes = window_attributes(call.op.attributes);
  attributes.set(kCountsPadding, call.op.attributes.boolean(kCountsPadding));
  attributes.set("extents", std::vector<int64_t>(space.begin(), space.end()));
  return {builder.op1("average_pool_grad", {call.output_gradients.at(0).value()}, attributes, "x")};
}

// average_pool_grad: each element that a window reads gets an equal share of the window's gradient.

std::vector<TensorType> infer_average_grad(const OpView& op) {
  detail::expect_operands("average_pool_grad", op, 1);
  detail::expect_image("average_pool_grad", op, 0, "dy");
  const SpatialDims dims = dims_of_extents("average_pool_grad", op);
  expect_places("average_pool_grad", op, 0, dims);
  return {like(op.inputs[0], in_space(dims))};
}

ShardingRule rule_average_grad(const OpView& op) {
  Sides sides = sides_by_positions(op, dims_of_extents("average_pool_grad", op));
  sides.rule.inputs = {sides.y};
  sides.rule.outputs = {sides.x};
  sides.rule.linear = {{0}};
  return sides.rule;
}

Work work_average_grad(const OpView& op) {
  return pooled_work(op, dims_of_extents("average_pool_grad", op));
}

KernelCall kernel_average_grad(const OpView& op, std::span<const Split> factors) {
  const SpatialDims dims = dims_of_extents("average_pool_grad", op);
  return detail::kernel_call("average_pool_grad",
                             average_ints(op, dims, sides_by_positions(op, dims), factors));
}

void reference_average_grad(const ReferenceCall& call) {
  const SpatialDims dims = dims_of_extents("average_pool_grad", call.op);
  const std::vector<double>& dy = call.inputs[0]->values;
  const std::vector<double> counts = counts_of(call.op, dims, dy.size());
  for_each_seen(call.op, dims, [&](size_t place, size_t position) {
    call.outputs[0].values[position] += dy[place] / counts[place];
  });
}

std::vector<double> tolerance_average_grad(const ReferenceCall& call, int output) {
  const SpatialDims dims = dims_of_extents("average_pool_grad", call.op);
  const std::vector<double>& dy = call.inputs[0]->values;
  const std::vector<double> counts = counts_of(call.op, dims, dy.size());
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  for_each_seen(call.op, dims, [&](size_t place, size_t position) {
    terms[position] += 1;
    errors[position] += std::abs(dy[place] / counts[place]);
  });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i] + 2, errors[i], call.outputs[output].type.dtype);
  return errors;
}

/// The forward op is linear, so the gradient of its gradient is the op itself.
Gradients gradient_average_grad(Builder& builder, const GradientCall& call) {
  Attributes attributes = window_attributes(call.op.attributes);
  attributes.set(kCountsPadding, call.op.attributes.boolean(kCountsPadding));
  return {builder.op1("average_pool", {call.output_gradients.at(0).value()}, attributes, "dy")};
}

}  // namespace

std::span<const Operator> pooling_operators() {
  static const std::array operators{Operator{.name = "max_pool",
                                             .precision = PrecisionClass::kExact,
                                             .infer = infer_max,
                                             .rule = rule_max,
                                             .work = work_max,
                                             .kernel = kernel_max,
                                             .reference = reference_max,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_max},
                                    Operator{.name = "max_pool_grad",
                                             .infer = infer_max_grad,
                                             .rule = rule_max_grad,
                                             .work = work_max_grad,
                                             .kernel = kernel_max_grad,
                                             .reference = reference_max_grad,
                                             .tolerance = tolerance_max_grad,
                                             .decision = decision_max_grad},
                                    Operator{.name = "average_pool",
                                             .precision = PrecisionClass::kGiven,
                                             .infer = infer_average,
                                             .rule = rule_average,
                                             .work = work_average,
                                             .kernel = kernel_average,
                                             .reference = reference_average,
                                             .tolerance = tolerance_average,
                                             .gradient = gradient_average},
                                    Operator{.name = "average_pool_grad",
                                             .infer = infer_average_grad,
                                             .rule = rule_average_grad,
                                             .work = work_average_grad,
                                             .kernel = kernel_average_grad,
                                             .reference = reference_average_grad,
                                             .tolerance = tolerance_average_grad,
                                             .gradient = gradient_average_grad}};
  return operators;
}

}  // namespace tessera
