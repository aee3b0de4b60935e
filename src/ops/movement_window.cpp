// slice, pad and concat: operators that take a window of a tensor or place tensors in one.
//
// A dim that is taken whole may be divided. A dim of which a window is taken stays whole: parts of the operand and of the result would
// not lie on the same process. Its extents before and after differ, so that it is two factors, d1 of the operand and d1_out of the result.
#include <algorithm>

#include "ops/builder.h"
#include "ops/movement.h"

namespace tessera {
namespace {

using detail::Gradients;

/// The rule of an op of one operand in which dim d keeps its extent and place when `whole_taken(d)`.
template <typename Predicate>
ShardingRule window_rule(const OpView& op, const Shape& out, Predicate whole_taken) {
  const Shape& in = op.inputs[0].shape;
  ShardingRule rule{{}, {{}}, {{}}, {}};
  for (int d = 0; d < in.size(); ++d) {
    const bool parallel = whole_taken(d);
    const std::string name = "d" + std::to_string(d);
    const int of_operand = detail::add_factor(rule, name, in[d], parallel ? FactorKind::kParallel : FactorKind::kWhole);
    const int of_result = parallel ? of_operand : detail::add_factor(rule, name + "_out", out[d], FactorKind::kWhole);
    rule.inputs[0].push_back({of_operand, 1});
    rule.outputs[0].push_back({of_result, 1});
  }
  return rule;
}

std::vector<LocalInt> local_ints(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

// slice

struct Window {
  int64_t start, limit, stride;
};

Window window_of(const Attributes& attributes, int dim) {
  const auto d = static_cast<size_t>(dim);
  return {attributes.integers("start")[d], attributes.integers("limit")[d], attributes.integers("stride")[d]};
}

void check_window(const OpView& op, int dim) {
  const Window window = window_of(op.attributes, dim);
  const int64_t extent = op.inputs[0].shape[dim];
  if (window.start >= 0 && window.start <= window.limit && window.limit <= extent && window.stride >= 1) return;
  detail::refuse("slice", op,
                 "window " + std::to_string(window.start) + ":" + std::to_string(window.limit) + ":" + std::to_string(window.stride) +
                     " does not lie in dim " + std::to_string(dim) + " of x " + to_text(op.inputs[0]),
                 "a window start:limit:stride has 0 <= start <= limit <= " + std::to_string(extent) + " and a stride of at least 1",
                 "correct the window, or check the layer that produces x");
}

std::vector<TensorType> infer_slice(const OpView& op) {
  detail::expect_operands("slice", op, 1);
  for (std::string_view attribute : {"start", "limit", "stride"}) detail::expect_entry_per_dim("slice", op, attribute);
  Shape shape;
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) {
    check_window(op, d);
    const Window window = window_of(op.attributes, d);
    shape.push_back((window.limit - window.start + window.stride - 1) / window.stride);
  }
  return {{op.inputs[0].dtype, shape}};
}

ShardingRule rule_slice(const OpView& op) {
  ShardingRule rule = window_rule(op, infer_slice(op)[0].shape, [&](int d) {
    const Window window = window_of(op.attributes, d);
    return window.start == 0 && window.limit == op.inputs[0].shape[d] && window.stride == 1;
  });
  rule.linear = {{0}};
  return rule;
}

/// Reads what it writes, not all of its operand.
Work work_slice(const OpView& op) {
  const Bytes window = byte_size(op.outputs.at(0));
  return {Flops(0), window + window};
}

KernelCall kernel_slice(const OpView& op, std::span<const Split>) {
  KernelCall call = detail::kernel_call("slice", local_ints(op.attributes.integers("start")));
  for (int64_t stride : op.attributes.integers("stride")) call.ints.emplace_back(stride);
  return call;
}

void reference_slice(const ReferenceCall& call) {
  const ReferenceTensor& x = *call.inputs[0];
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = index;
    for (int d = 0; d < index.size(); ++d) {
      const Window window = window_of(call.op.attributes, d);
      source[d] = window.start + index[d] * window.stride;
    }
    return x.values[static_cast<size_t>(detail::flat_index(source, x.type.shape))];
  });
}

/// `x` with stride - 1 zeros after each element along `dim`: [.., n, ..] -> [.., n, 1, ..] -> [.., n, stride, ..] -> [.., n * stride, ..].
ValueId spread(Builder& builder, ValueId x, int dim, int64_t stride) {
  const Shape from = builder.shape(x);
  Shape apart, padded, joined;
  for (int d = 0; d < from.size(); ++d) {
    apart.push_back(from[d]);
    padded.push_back(from[d]);
    joined.push_back(d == dim ? from[d] * stride : from[d]);
    if (d == dim) {
      apart.push_back(1);
      padded.push_back(stride);
    }
  }
  const std::vector<int64_t> low(static_cast<size_t>(apart.size()), 0);
  return builder.reshape(builder.pad(builder.reshape(x, apart), low, padded, 0), joined);
}

void expect_room_to_spread(const Op& op, const Shape& from) {
  const std::vector<int64_t>& stride = op.attributes.integers("stride");
  if (from.size() < kMaxRank || std::all_of(stride.begin(), stride.end(), [](int64_t step) { return step == 1; })) return;
  throw UserError("slice '" + op.name + "': no gradient for strides " + to_text(Attribute(stride)) + " of x f32[" + to_text(from) + "]",
                  "the gradient of a stride takes one more dim for a while, and a tensor has at most " + std::to_string(kMaxRank),
                  "reshape x to fewer dims before slicing", ExitCode::kBadData);
}

/// The gradient lies where the window was taken, among zeros. pad drops the zeros that spread leaves after the last element of x.
Gradients gradient_slice(Builder& builder, const GradientCall& call) {
  const Attributes attributes = call.op.attributes;
  const Shape from = builder.shape(call.op.inputs[0]);
  ValueId flow = call.output_gradients.at(0).value();
  expect_room_to_spread(call.op, from);
  for (int d = 0; d < from.size(); ++d)
    if (window_of(attributes, d).stride > 1) flow = spread(builder, flow, d, window_of(attributes, d).stride);
  return {builder.pad(flow, attributes.integers("start"), from, 0, "x")};
}

// pad

std::vector<TensorType> infer_pad(const OpView& op) {
  detail::expect_operands("pad", op, 1);
  detail::expect_dtype("pad", op, 0, "x", {DType::kF32, DType::kI32});
  detail::expect_entry_per_dim("pad", op, "low");
  detail::expect_entry_per_dim("pad", op, "shape");
  return {{op.inputs[0].dtype, detail::shape_attribute("pad", op)}};
}

ShardingRule rule_pad(const OpView& op) {
  const Shape out = detail::result_shape(op);
  ShardingRule rule = window_rule(
      op, out, [&](int d) { return op.attributes.integers("low")[static_cast<size_t>(d)] == 0 && out[d] == op.inputs[0].shape[d]; });
  // Parts of a sum would each bring the value once.
  if (op.attributes.number("value") == 0) rule.linear = {{0}};
  return rule;
}

KernelCall kernel_pad(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("pad", local_ints(op.attributes.integers("low")), {op.attributes.number("value")});
}

void reference_pad(const ReferenceCall& call) {
  const std::vector<int64_t>& low = call.op.attributes.integers("low");
  const double value = call.op.attributes.number("value");
  const ReferenceTensor& x = *call.inputs[0];
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = index;
    for (int d = 0; d < index.size(); ++d) {
      source[d] = index[d] - low[static_cast<size_t>(d)];
      if (source[d] < 0 || source[d] >= x.type.shape[d]) return value;
    }
    return x.values[static_cast<size_t>(detail::flat_index(source, x.type.shape))];
  });
}

/// Takes back what was placed; what had been dropped gets zeros.
Gradients gradient_pad(Builder& builder, const GradientCall& call) {
  const Shape from = builder.shape(call.op.inputs[0]);
  std::vector<int64_t> low = call.op.attributes.integers("low");
  for (int64_t& entry : low) entry = -entry;
  return {builder.pad(call.output_gradients.at(0).value(), low, from, 0, "x")};
}

// concat

void check_part(const OpView& op, int dim, size_t part) {
  const TensorType& first = op.inputs[0];
  const TensorType& type = op.inputs[part];
  bool fits = type.dtype == first.dtype && type.shape.size() == first.shape.size();
  for (int d = 0; fits && d < first.shape.size(); ++d) fits = d == dim || type.shape[d] == first.shape[d];
  if (fits) return;
  detail::refuse("concat", op, "part " + std::to_string(part) + " " + to_text(type) + " does not fit part 0 " + to_text(first),
                 "parts have one element type and differ in dim " + std::to_string(dim) + " only",
                 "check the layers that produce the parts");
}

std::vector<TensorType> infer_concat(const OpView& op) {
  if (op.inputs.empty()) detail::refuse("concat", op, "no operands given", "concat joins one tensor or more", "give at least one part");
  const int dim = detail::dim_attribute("concat", op, op.inputs[0].shape.size());
  TensorType type = op.inputs[0];
  for (size_t part = 1; part < op.inputs.size(); ++part) {
    check_part(op, dim, part);
    type.shape[dim] += op.inputs[part].shape[dim];
  }
  return {type};
}

/// All parts share the other dims; the dim of the joint is a whole factor of each operand.
ShardingRule rule_concat(const OpView& op) {
  const int dim = static_cast<int>(op.attributes.integer("dim"));
  TensorType out = infer_concat(op)[0];
  ShardingRule rule;
  OperandFactors shared;
  for (int d = 0; d < out.shape.size(); ++d)
    shared.push_back({detail::add_factor(rule, "d" + std::to_string(d) + (d == dim ? "_out" : ""), out.shape[d],
                                         d == dim ? FactorKind::kWhole : FactorKind::kParallel),
                      1});
  rule.outputs = {shared};
  std::vector<int> every_input;
  for (size_t part = 0; part < op.inputs.size(); ++part) {
    const std::string name = "d" + std::to_string(dim) + "_" + std::to_string(part);
    shared[static_cast<size_t>(dim)].factor = detail::add_factor(rule, name, op.inputs[part].shape[dim], FactorKind::kWhole);
    rule.inputs.push_back(shared);
    every_input.push_back(static_cast<int>(part));
  }
  rule.linear = {every_input};
  return rule;
}

KernelCall kernel_concat(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("concat", {op.attributes.integer("dim")});
}

/// Where each part begins along the dim of the joint, and where the last one ends.
std::vector<int64_t> part_begins(const std::vector<Shape>& parts, int dim) {
  std::vector<int64_t> begins{0};
  for (const Shape& part : parts) begins.push_back(begins.back() + part[dim]);
  return begins;
}

void reference_concat(const ReferenceCall& call) {
  const int dim = static_cast<int>(call.op.attributes.integer("dim"));
  std::vector<Shape> parts;
  for (const ReferenceTensor* part : call.inputs) parts.push_back(part->type.shape);
  const std::vector<int64_t> begins = part_begins(parts, dim);
  detail::fill_result(call, [&](const Dims& index) {
    const auto part = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), index[dim]) - begins.begin() - 1);
    Dims source = index;
    source[dim] -= begins[part];
    return call.inputs[part]->values[static_cast<size_t>(detail::flat_index(source, parts[part]))];
  });
}

Gradients gradient_concat(Builder& builder, const GradientCall& call) {
  const int dim = static_cast<int>(call.op.attributes.integer("dim"));
  std::vector<Shape> parts;
  for (ValueId part : call.op.inputs) parts.push_back(builder.shape(part));
  const std::vector<int64_t> begins = part_begins(parts, dim);
  const Shape whole = builder.shape(call.op.outputs[0]);
  Gradients gradients(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    if (!call.wanted[part]) continue;
    std::vector<int64_t> start(static_cast<size_t>(whole.size()), 0), limit(whole.begin(), whole.end());
    start[static_cast<size_t>(dim)] = begins[part];
    limit[static_cast<size_t>(dim)] = begins[part + 1];
    const std::vector<int64_t> stride(start.size(), 1);
    gradients[part] = builder.slice(call.output_gradients.at(0).value(), start, limit, stride, "part" + std::to_string(part));
  }
  return gradients;
}

}  // namespace

namespace detail {

Operator slice_operator() {
  return {.name = "slice",
          .infer = infer_slice,
          .rule = rule_slice,
          .work = work_slice,
          .kernel = kernel_slice,
          .reference = reference_slice,
          .tolerance = exact,
          .gradient = gradient_slice};
}

Operator pad_operator() {
  return {.name = "pad",
          .infer = infer_pad,
          .rule = rule_pad,
          .work = movement_work,
          .kernel = kernel_pad,
          .reference = reference_pad,
          .tolerance = exact,
          .gradient = gradient_pad};
}

Operator concat_operator() {
  return {.name = "concat",
          .infer = infer_concat,
          .rule = rule_concat,
          .work = movement_work,
          .kernel = kernel_concat,
          .reference = reference_concat,
          .tolerance = exact,
          .gradient = gradient_concat};
}

}  // namespace detail
}  // namespace tessera
