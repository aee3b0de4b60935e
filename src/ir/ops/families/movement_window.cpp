// slice, pad and concat: operators that take a window of a tensor or place tensors in one.
//
// A dim of the result is one factor. Where it is not an unchanged dim of the operand, the operand
// has a window of it: a part of the result needs other indices, and parts of the operand and of the
// result need not be on the same rank. Where the longer of the two consists of a few pieces as long
// as the shorter one, such as q, k and v, a second factor divides all pieces alike, and no data is
// moved.
#include <algorithm>
#include <optional>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families/movement.h"

namespace tessera {
namespace {

using detail::Gradients;

/// A dim with at least this many chunks is not divided by chunks: a window of one of them moves
/// less data than all of them.
constexpr int64_t kMaxSlices = 8;

/// The chunk of `extent` indices in a dim of `whole` that begins at `begin`, or -1 when these are
/// not chunks.
int64_t chunk_at(int64_t begin, int64_t extent, int64_t whole) {
  if (extent <= 1 || begin < 0 || begin % extent != 0 || whole % extent != 0) return -1;
  return whole / extent > 1 && whole / extent <= kMaxSlices && begin < whole ? begin / extent : -1;
}

/// Adds the factor that divides each chunk of a dim of `longer` as it divides that dim of each of
/// the others. It comes first, so it is chosen where all are plainly divided.
void add_chunk_factor(ShardingRule& rule, int d, int64_t extent, int64_t chunks,
                      OperandFactors& longer, std::vector<OperandFactors>& shorter) {
  const int factor = detail::add_factor(rule, "d" + std::to_string(d) + "_chunk", extent);
  const auto put_first = [&](OperandFactors& operand, int64_t count) {
    DimFactor& dim = operand[d];
    std::vector<DimFactor> others = choices_of(dim);
    dim = {factor, 1, {}, count, std::move(others)};
  };
  put_first(longer, chunks);
  for (OperandFactors& operand : shorter) put_first(operand, 1);
}

/// The rule of an op with one operand, in which each dim has a window of the result's dim.
template <typename WindowOfDim>
ShardingRule window_rule(const Shape& out, WindowOfDim window_of_dim) {
  ShardingRule rule;
  rule.outputs = {detail::add_factors(rule, out)};
  rule.inputs = rule.outputs;
  for (int d = 0; d < out.size(); ++d) {
    const Window window = window_of_dim(d);
    if (!window.is_identity()) rule.inputs[0][d].window = window;
  }
  return rule;
}

/// The begin of dim d of the operand in a part, counted from `first` of the result's part: 0 when
/// the operand has all that is needed.
///   requires  factor d is the factor of the window, as window_rule adds them
LocalInt begin_in_operand(const ShardingRule& rule, std::span<const Split> factors, int d,
                          int64_t stride, int64_t start) {
  const DimFactor& dim = *find_factor(rule.inputs[0][d], d);
  const Split& part = factors[d];
  if (!dim.window) return start;
  return LocalInt(start) + stride * LocalInt::begin_of(part) -
         LocalInt::begin_of(split_of(dim, part));
}

/// The begin of the chunk in a part that has all chunks; nullopt when the dim is not divided in
/// this way.
std::optional<LocalInt> begin_of_chunk(const OperandFactors& operand,
                                       std::span<const Split> factors, int d, int64_t chunk) {
  const DimFactor& dim = operand[d];
  if (dim.others.empty() || factors[dim.factor].axes.empty()) return std::nullopt;
  return chunk * LocalInt::size_of(factors[dim.factor]);
}

// slice

struct Taken {
  int64_t start, limit, stride;
};

Taken taken_of(const Attributes& attributes, int dim) {
  const size_t d = dim;
  return {attributes.integers("start")[d], attributes.integers("limit")[d],
          attributes.integers("stride")[d]};
}

void check_window(const OpView& op, int dim) {
  const Taken window = taken_of(op.attributes, dim);
  const int64_t extent = op.inputs[0].shape[dim];
  if (window.start >= 0 && window.start <= window.limit && window.limit <= extent &&
      window.stride >= 1)
    return;
  detail::refuse("slice", op,
                 "window " + std::to_string(window.start) + ":" + std::to_string(window.limit) +
                     ":" + std::to_string(window.stride) + " is not inside dim " +
                     std::to_string(dim) + " of x " + to_text(op.inputs[0]),
                 "a window start:limit:stride has 0 <= start <= limit <= " +
                     std::to_string(extent) + " and a stride of at least 1",
                 "correct the window, or check the layer that produces x");
}

std::vector<TensorType> infer_slice(const OpView& op) {
  detail::expect_operands("slice", op, 1);
  for (std::string_view attribute : {"start", "limit", "stride"})
    detail::expect_entry_per_dim("slice", op, attribute);
  Shape shape;
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) {
    check_window(op, d);
    const Taken window = taken_of(op.attributes, d);
    shape.push_back((window.limit - window.start + window.stride - 1) / window.stride);
  }
  return {{op.inputs[0].dtype, shape}};
}

int64_t chunk_taken(const OpView& op, const Shape& out, int d) {
  const Taken taken = taken_of(op.attributes, d);
  return taken.stride == 1 ? chunk_at(taken.start, out[d], op.inputs[0].shape[d]) : -1;
}

ShardingRule rule_slice(const OpView& op) {
  const Shape out = infer_slice(op)[0].shape;
  ShardingRule rule = window_rule(out, [&](int d) {
    const Taken taken = taken_of(op.attributes, d);
    return Window{out[d], op.inputs[0].shape[d], taken.stride, 1, taken.start, taken.start};
  });
  for (int d = 0; d < out.size(); ++d)
    if (chunk_taken(op, out, d) >= 0)
      add_chunk_factor(rule, d, out[d], op.inputs[0].shape[d] / out[d], rule.inputs[0],
                       rule.outputs);
  rule.linear = {{0}};
  return rule;
}

/// Reads only the elements that it writes, not all of its operand.
Work work_slice(const OpView& op) {
  const Bytes window = byte_size(op.outputs.at(0));
  return {Flops(0), window + window};
}

KernelCall kernel_slice(const OpView& op, std::span<const Split> factors) {
  const ShardingRule rule = rule_slice(op);
  const Shape out = infer_slice(op)[0].shape;
  KernelCall call = detail::kernel_call("slice");
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) {
    const Taken taken = taken_of(op.attributes, d);
    const auto begin = begin_of_chunk(rule.inputs[0], factors, d, chunk_taken(op, out, d));
    call.ints.push_back(begin ? *begin
                              : begin_in_operand(rule, factors, d, taken.stride, taken.start));
  }
  for (int64_t stride : op.attributes.integers("stride")) call.ints.emplace_back(stride);
  return call;
}

void reference_slice(const ReferenceCall& call) {
  const ReferenceTensor& x = *call.inputs[0];
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = index;
    for (int d = 0; d < index.size(); ++d) {
      const Taken taken = taken_of(call.op.attributes, d);
      source[d] = taken.start + index[d] * taken.stride;
    }
    return x.values[row_major_index(source, x.type.shape)];
  });
}

/// `x` with stride - 1 zeros after each element along `dim`: [.., n, ..] -> [.., n, 1, ..] -> [..,
/// n, stride, ..] -> [.., n * stride, ..].
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
  const std::vector<int64_t> low(apart.size(), 0);
  return builder.reshape(builder.pad(builder.reshape(x, apart), low, padded, 0), joined);
}

void expect_room_to_spread(const Op& op, const Shape& from) {
  const std::vector<int64_t>& stride = op.attributes.integers("stride");
  if (from.size() < kMaxRank ||
      std::all_of(stride.begin(), stride.end(), [](int64_t step) { return step == 1; }))
    return;
  throw UserError(
      "slice '" + op.name + "': no gradient for strides " + to_text(Attribute(stride)) +
          " of x f32[" + to_text(from) + "]",
      "the gradient of a stride takes one more dim for a while, and a tensor has at most " +
          std::to_string(kMaxRank),
      "reshape x to fewer dims before slicing", ExitCode::kBadData);
}

/// The gradient is at the position of the window, among zeros. pad drops the zeros that spread
/// leaves after the last element of x.
Gradients gradient_slice(Builder& builder, const GradientCall& call) {
  const Attributes attributes = call.op.attributes;
  const Shape from = builder.shape(call.op.inputs[0]);
  ValueId flow = call.output_gradients.at(0).value();
  expect_room_to_spread(call.op, from);
  for (int d = 0; d < from.size(); ++d)
    if (taken_of(attributes, d).stride > 1)
      flow = spread(builder, flow, d, taken_of(attributes, d).stride);
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

int64_t chunk_filled(const OpView& op, const Shape& out, int d) {
  return chunk_at(op.attributes.integers("low")[d], op.inputs[0].shape[d], out[d]);
}

ShardingRule rule_pad(const OpView& op) {
  const Shape out = detail::result_shape(op);
  ShardingRule rule = window_rule(out, [&](int d) {
    const int64_t low = op.attributes.integers("low")[d];
    return Window{out[d], op.inputs[0].shape[d], 1, 1, -low, -low};
  });
  for (int d = 0; d < out.size(); ++d)
    if (chunk_filled(op, out, d) >= 0)
      add_chunk_factor(rule, d, op.inputs[0].shape[d], out[d] / op.inputs[0].shape[d],
                       rule.outputs[0], rule.inputs);
  // Parts of a sum would each add the value.
  if (op.attributes.number("value") == 0) rule.linear = {{0}};
  return rule;
}

/// The attribute low of a part: the distance from the first element that the result's part would
/// read to the begin of the operand's part.
KernelCall kernel_pad(const OpView& op, std::span<const Split> factors) {
  const ShardingRule rule = rule_pad(op);
  KernelCall call = detail::kernel_call("pad", {}, {op.attributes.number("value")});
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) {
    const auto begin =
        begin_of_chunk(rule.inputs[0], factors, d, chunk_filled(op, detail::result_shape(op), d));
    const int64_t low = op.attributes.integers("low")[d];
    call.ints.push_back(begin ? *begin : -1 * begin_in_operand(rule, factors, d, 1, -low));
  }
  return call;
}

void reference_pad(const ReferenceCall& call) {
  const std::vector<int64_t>& low = call.op.attributes.integers("low");
  const double value = call.op.attributes.number("value");
  const ReferenceTensor& x = *call.inputs[0];
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = index;
    for (int d = 0; d < index.size(); ++d) {
      source[d] = index[d] - low[d];
      if (source[d] < 0 || source[d] >= x.type.shape[d]) return value;
    }
    return x.values[row_major_index(source, x.type.shape)];
  });
}

/// Takes back the placed elements; dropped elements get zeros.
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
  for (int d = 0; fits && d < first.shape.size(); ++d)
    fits = d == dim || type.shape[d] == first.shape[d];
  if (fits) return;
  detail::refuse("concat", op,
                 "part " + std::to_string(part) + " " + to_text(type) + " does not fit part 0 " +
                     to_text(first),
                 "parts have one element type and differ in dim " + std::to_string(dim) + " only",
                 "check the layers that produce the parts");
}

std::vector<TensorType> infer_concat(const OpView& op) {
  if (op.inputs.empty())
    detail::refuse("concat", op, "no operands given", "concat joins one tensor or more",
                   "give at least one part");
  const int dim = detail::dim_attribute("concat", op, op.inputs[0].shape.size());
  TensorType type = op.inputs[0];
  for (size_t part = 1; part < op.inputs.size(); ++part) {
    check_part(op, dim, part);
    type.shape[dim] += op.inputs[part].shape[dim];
  }
  return {type};
}

/// All operands share the dims; each has its own window of the dim along which they are joined.
ShardingRule rule_concat(const OpView& op) {
  const int dim = static_cast<int>(op.attributes.integer("dim"));
  const Shape out = infer_concat(op)[0].shape;
  ShardingRule rule;
  rule.outputs = {detail::add_factors(rule, out)};
  std::vector<int> every_input;
  int64_t begin = 0;
  for (const TensorType& part : op.inputs) {
    rule.inputs.push_back(rule.outputs[0]);
    const Window window{out[dim], part.shape[dim], 1, 1, -begin, -begin};
    if (!window.is_identity()) rule.inputs.back()[dim].window = window;
    every_input.push_back(static_cast<int>(rule.inputs.size()) - 1);
    begin += part.shape[dim];
  }
  rule.linear = {every_input};
  const bool alike = std::all_of(op.inputs.begin(), op.inputs.end(),
                                 [&](const TensorType& part) { return part == op.inputs[0]; });
  if (const int64_t extent = op.inputs[0].shape[dim]; alike && chunk_at(0, extent, out[dim]) == 0)
    add_chunk_factor(rule, dim, extent, out[dim] / extent, rule.outputs[0], rule.inputs);
  return rule;
}

KernelCall kernel_concat(const OpView& op, std::span<const Split>) {
  return detail::kernel_call("concat", {op.attributes.integer("dim")});
}

/// The begin of each operand along the joined dim, and the end of the last one.
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
    const size_t part =
        std::upper_bound(begins.begin(), begins.end(), index[dim]) - begins.begin() - 1;
    Dims source = index;
    source[dim] -= begins[part];
    return call.inputs[part]->values[row_major_index(source, parts[part])];
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
    std::vector<int64_t> start(whole.size(), 0), limit(whole.begin(), whole.end());
    start[dim] = begins[part];
    limit[dim] = begins[part + 1];
    const std::vector<int64_t> stride(start.size(), 1);
    gradients[part] = builder.slice(call.output_gradients.at(0).value(), start, limit, stride,
                                    "part" + std::to_string(part));
  }
  return gradients;
}

}  // namespace

namespace detail {

Operator slice_operator() {
  return {.name = "slice",
          .precision = PrecisionClass::kExact,
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
          .precision = PrecisionClass::kGiven,
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
          .precision = PrecisionClass::kExact,
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
