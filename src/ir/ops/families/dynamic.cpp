// dynamic_slice and dynamic_update: windows whose begin operands determine at run time, such as one
// position of a key-value cache.
//
// As in gather, a window that reaches beyond its tensor reads zeros there, and what it writes there
// is dropped. So a rank that holds a range of a dim treats everything else as outside, and its part
// needs no other. Each operator is in the gradient of the other.
#include <algorithm>
#include <array>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using detail::Gradients;

const std::vector<int64_t>& moving_dims(const OpView& op) {
  return op.attributes.integers("dims");
}

/// The index of `dim` among the moving dims, or -1.
int moving_index(const OpView& op, int dim) {
  const std::vector<int64_t>& dims = moving_dims(op);
  const auto found = std::find(dims.begin(), dims.end(), dim);
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

/// Refuses dims that do not ascend or do not exist, and starts that are not one i32[] for each.
void check_starts(std::string_view kind, const OpView& op, size_t first_start) {
  const std::vector<int64_t>& dims = moving_dims(op);
  const TensorType& x = op.inputs[0];
  const bool ascending =
      std::adjacent_find(dims.begin(), dims.end(), std::greater_equal<>()) == dims.end();
  if (!ascending || (!dims.empty() && (dims.front() < 0 || dims.back() >= x.shape.size())))
    detail::refuse(kind, op, "dims " + to_text(Attribute(dims)) + " do not fit x " + to_text(x),
                   "dims are those in which the window begins at an operand, in ascending order, "
                   "counted from 0",
                   "list each such dim of x once");
  for (size_t k = 0; k < dims.size(); ++k)
    if (const TensorType& start = op.inputs[first_start + k]; start != TensorType{DType::kI32, {}})
      detail::refuse(kind, op,
                     "start " + std::to_string(k) + " " + to_text(start) + " is not i32[]",
                     "a window begins at one whole number in each of dims",
                     "cast it to i32 and reshape it to no dims");
}

/// A factor for each dim of the tensor, and for each of the window. Dims that are taken whole share
/// one factor.
struct WindowFactors {
  OperandFactors tensor, window;
};

/// The kinds of the factors of the moving dims.
struct MovingKinds {
  FactorKind tensor, window;
  ReduceOp reduce = ReduceOp::kSum;
};

WindowFactors add_window_factors(ShardingRule& rule, const OpView& op, const Shape& window,
                                 const MovingKinds& kinds, std::string_view suffix) {
  const Shape& tensor = op.inputs[0].shape;
  WindowFactors factors;
  for (int d = 0; d < tensor.size(); ++d) {
    const std::string name = "d" + std::to_string(d);
    const bool moves = moving_index(op, d) >= 0;
    const int shared = moves ? detail::add_factor(rule, name, tensor[d], kinds.tensor, kinds.reduce)
                             : detail::add_factor(rule, name, tensor[d]);
    const int own =
        moves ? detail::add_factor(rule, name + std::string(suffix), window[d], kinds.window)
              : shared;
    factors.tensor.push_back({shared, 1});
    factors.window.push_back({own, 1});
  }
  return factors;
}

/// A window is read and written; the rest of the tensor is not touched.
Work window_work(const TensorType& window) {
  const Bytes bytes = byte_size(window);
  return {Flops(0), bytes + bytes};
}

/// The position in the tensor of element `index` of the window; nullopt when it is outside.
std::optional<size_t> place_of(const ReferenceCall& call, size_t first_start, const Dims& index,
                               const Shape& tensor) {
  Dims position = index;
  const std::vector<int64_t>& dims = moving_dims(call.op);
  for (size_t k = 0; k < dims.size(); ++k)
    position[dims[k]] += static_cast<int64_t>(call.inputs[first_start + k]->values[0]);
  for (int d = 0; d < tensor.size(); ++d)
    if (position[d] < 0 || position[d] >= tensor[d]) return std::nullopt;
  return row_major_index(position, tensor);
}

std::vector<ValueId> starts_of(const GradientCall& call, size_t first_start) {
  return {call.op.inputs.begin() + first_start, call.op.inputs.end()};
}

// dynamic_slice

constexpr size_t kSliceStarts = 1;

std::vector<TensorType> infer_dynamic_slice(const OpView& op) {
  detail::expect_operands("dynamic_slice", op, 1 + moving_dims(op).size());
  check_starts("dynamic_slice", op, kSliceStarts);
  const std::vector<int64_t>& sizes = op.attributes.integers("sizes");
  TensorType type = op.inputs[0];
  bool fits = sizes.size() == moving_dims(op).size();
  for (size_t k = 0; fits && k < sizes.size(); ++k) {
    int64_t& extent = type.shape[moving_dims(op)[k]];
    fits = sizes[k] >= 0 && sizes[k] <= extent;
    extent = sizes[k];
  }
  if (!fits)
    detail::refuse("dynamic_slice", op,
                   "sizes " + to_text(Attribute(sizes)) + " do not fit x " + to_text(op.inputs[0]),
                   "the window has one extent for each of dims " +
                       to_text(Attribute(moving_dims(op))) + ", none larger than that of x",
                   "correct the sizes, or check the layer that produces x");
  return {type};
}

/// A rank that holds a range of a dim finds the part of the window inside it and leaves zeros
/// elsewhere. At most one rank has each element, so the parts add up exactly. The window may be
/// divided, too: a part of it is a window that begins later.
ShardingRule rule_dynamic_slice(const OpView& op) {
  ShardingRule rule;
  const ReduceOp reduce = op.inputs[0].dtype == DType::kBool ? ReduceOp::kAny : ReduceOp::kSum;
  const MovingKinds kinds{FactorKind::kMaskedReduction, FactorKind::kParallel, reduce};
  const WindowFactors factors =
      add_window_factors(rule, op, infer_dynamic_slice(op)[0].shape, kinds, "_out");
  rule.inputs.assign(op.inputs.size(), {});
  rule.inputs[0] = factors.tensor;
  rule.outputs = {factors.window};
  rule.linear = {{0}};
  return rule;
}

Work work_dynamic_slice(const OpView& op) {
  return window_work(op.outputs.at(0));
}

KernelCall kernel_dynamic_slice(const OpView& op, std::span<const Split> factors) {
  const ShardingRule rule = rule_dynamic_slice(op);
  KernelCall call = detail::kernel_call("dynamic_slice");
  for (int64_t dim : moving_dims(op)) {
    const size_t d = dim;
    call.ints.emplace_back(dim);
    call.ints.push_back(LocalInt::begin_of(factors[rule.inputs[0][d].factor]));
    call.ints.push_back(LocalInt::begin_of(factors[rule.outputs[0][d].factor]));
  }
  return call;
}

void reference_dynamic_slice(const ReferenceCall& call) {
  const ReferenceTensor& x = *call.inputs[0];
  ReferenceTensor& out = call.outputs[0];
  Dims index = Dims::filled(out.type.shape.size(), 0);
  for (double& value : out.values) {
    const std::optional<size_t> place = place_of(call, kSliceStarts, index, x.type.shape);
    value = place ? x.values[*place] : 0;
    advance_index(index, out.type.shape);
  }
}

/// The gradient is at the position of the window, among zeros.
Gradients gradient_dynamic_slice(Builder& builder, const GradientCall& call) {
  Gradients result(call.op.inputs.size());
  const TensorType type = builder.type(call.op.inputs[0]);
  if (!call.wanted[0] || !is_float(type.dtype)) return result;
  const std::vector<int64_t> dims = call.op.attributes.integers("dims");
  const std::vector<ValueId> starts = starts_of(call, kSliceStarts);
  const ValueId zeros = builder.constant(type, 0);
  result[0] = builder.dynamic_update(zeros, call.output_gradients.at(0).value(), starts, dims, "x");
  return result;
}

// dynamic_update

constexpr size_t kUpdateStarts = 2;

std::vector<TensorType> infer_dynamic_update(const OpView& op) {
  detail::expect_operands("dynamic_update", op, 2 + moving_dims(op).size());
  check_starts("dynamic_update", op, kUpdateStarts);
  const TensorType &x = op.inputs[0], &update = op.inputs[1];
  bool fits = update.dtype == x.dtype && update.shape.size() == x.shape.size();
  for (int d = 0; fits && d < x.shape.size(); ++d)
    fits =
        update.shape[d] == x.shape[d] || (moving_index(op, d) >= 0 && update.shape[d] < x.shape[d]);
  if (!fits)
    detail::refuse("dynamic_update", op,
                   "update " + to_text(update) + " does not fit x " + to_text(x),
                   "an update has the element type and the dims of x, and may be smaller in dims " +
                       to_text(Attribute(moving_dims(op))) + " only",
                   "reshape the update, or list the dims in which it is smaller");
  return {x};
}

/// A rank that holds a range of x writes the part of the update inside it. So x may be divided in
/// every dim, and the update where it is as large as x.
ShardingRule rule_dynamic_update(const OpView& op) {
  ShardingRule rule;
  const MovingKinds kinds{FactorKind::kParallel, FactorKind::kWhole};
  const WindowFactors factors = add_window_factors(rule, op, op.inputs[1].shape, kinds, "_update");
  rule.inputs.assign(op.inputs.size(), {});
  rule.inputs[0] = factors.tensor;
  rule.inputs[1] = factors.window;
  rule.outputs = {factors.tensor};
  rule.linear = {{0, 1}};
  return rule;
}

Work work_dynamic_update(const OpView& op) {
  return window_work(op.inputs.at(1));
}

KernelCall kernel_dynamic_update(const OpView& op, std::span<const Split> factors) {
  const ShardingRule rule = rule_dynamic_update(op);
  KernelCall call = detail::kernel_call("dynamic_update");
  for (int64_t dim : moving_dims(op)) {
    call.ints.emplace_back(dim);
    call.ints.push_back(LocalInt::begin_of(factors[rule.inputs[0][dim].factor]));
  }
  return call;
}

void reference_dynamic_update(const ReferenceCall& call) {
  const ReferenceTensor& update = *call.inputs[1];
  ReferenceTensor& out = call.outputs[0];
  out.values = call.inputs[0]->values;
  Dims index = Dims::filled(update.type.shape.size(), 0);
  for (double value : update.values) {
    if (const std::optional<size_t> place = place_of(call, kUpdateStarts, index, out.type.shape))
      out.values[*place] = value;
    advance_index(index, update.type.shape);
  }
}

/// Elements that were overwritten have no gradient; the update gets the gradient at its position.
Gradients gradient_dynamic_update(Builder& builder, const GradientCall& call) {
  Gradients result(call.op.inputs.size());
  const TensorType update = builder.type(call.op.inputs[1]);
  if (!is_float(update.dtype)) return result;
  const std::vector<int64_t> dims = call.op.attributes.integers("dims");
  const std::vector<ValueId> starts = starts_of(call, kUpdateStarts);
  const ValueId flow = call.output_gradients.at(0).value();
  if (call.wanted[0]) {
    const ValueId zeros = builder.constant(update, 0);
    result[0] = builder.dynamic_update(flow, zeros, starts, dims, "x");
  }
  std::vector<int64_t> sizes;
  for (int64_t dim : dims) sizes.push_back(update.shape[dim]);
  if (call.wanted[1]) result[1] = builder.dynamic_slice(flow, starts, dims, sizes, "update");
  return result;
}

}  // namespace

std::span<const Operator> dynamic_operators() {
  static const std::array operators{Operator{.name = "dynamic_slice",
                                             .precision = PrecisionClass::kExact,
                                             .infer = infer_dynamic_slice,
                                             .rule = rule_dynamic_slice,
                                             .work = work_dynamic_slice,
                                             .kernel = kernel_dynamic_slice,
                                             .reference = reference_dynamic_slice,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_dynamic_slice},
                                    Operator{.name = "dynamic_update",
                                             .precision = PrecisionClass::kGiven,
                                             .infer = infer_dynamic_update,
                                             .rule = rule_dynamic_update,
                                             .work = work_dynamic_update,
                                             .kernel = kernel_dynamic_update,
                                             .reference = reference_dynamic_update,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_dynamic_update}};
  return operators;
}

}  // namespace tessera
