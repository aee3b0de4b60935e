// convolution and its two gradients. All three are sums of one product, x w y, over batch,
// channels, positions of the window and elements of the window, in which one of the three tensors
// is the result. So the gradients of each are the other two.
//
//     convolution              x[N, G*I, in...], w[G*O, I, window...] -> y[N, G*O, out...]
//     convolution_grad_input   y, w -> x           which is also the transposed convolution
//     convolution_grad_weight  x, y -> w
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/spatial_dims.h"

namespace tessera {
namespace {

using detail::Gradients;
using detail::SpatialDim;
using detail::Tap;

/// The tensor that an operator computes from the other two.
enum class Free { kY, kX, kW };

constexpr std::string_view kForward = "convolution", kGradInput = "convolution_grad_input",
                           kGradWeight = "convolution_grad_weight";

constexpr std::string_view kind_of(Free free) {
  return free == Free::kY ? kForward : free == Free::kX ? kGradInput : kGradWeight;
}
/// The names of the operands in messages.
constexpr std::array<std::string_view, 2> letters_of(Free free) {
  if (free == Free::kY) return {"x", "w"};
  if (free == Free::kX) return {"y", "w"};
  return {"x", "y"};
}

/// Extents of all three tensors. Channels are those of one group.
struct Convolution {
  int64_t batch, groups, out_channels, in_channels;
  std::vector<SpatialDim> dims;

  Shape x() const { return detail::with_space(batch, groups * in_channels, in_space(dims)); }
  Shape w() const {
    return detail::with_space(groups * out_channels, in_channels, window_space(dims));
  }
  Shape y() const { return detail::with_space(batch, groups * out_channels, out_space(dims)); }
};

// Types

int64_t groups_of(std::string_view kind, const OpView& op) {
  const int64_t groups = op.attributes.integer("groups");
  if (groups < 1)
    detail::refuse(kind, op, "groups = " + std::to_string(groups),
                   "channels are divided into that many groups", "use 1 or more");
  return groups;
}

[[noreturn]] void refuse_invalid(std::string_view kind, const OpView& op, const std::string& why) {
  const auto letters = letters_of(kind == kForward     ? Free::kY
                                  : kind == kGradInput ? Free::kX
                                                       : Free::kW);
  detail::refuse(kind, op,
                 std::string(letters[0]) + " " + to_text(op.inputs[0]) + " does not fit " +
                     std::string(letters[1]) + " " + to_text(op.inputs[1]),
                 why, "check the attributes, or the layers that produce the operands");
}

void expect_divisible(std::string_view kind, const OpView& op, int64_t channels, int64_t groups) {
  if (channels % groups == 0) return;
  refuse_invalid(kind, op,
                 std::to_string(channels) + " channels do not fall into " + std::to_string(groups) +
                     " equal groups");
}

/// Channels and space of x, w and y, from the two that are given.
Convolution of_x_and_w(const OpView& op, const Shape& x, const Shape& w) {
  const int64_t groups = groups_of(kForward, op);
  if (x.size() != w.size() || x[1] != groups * w[1])
    refuse_invalid(kForward, op,
                   "x is [batch, channels, space...], w [out channels, channels / groups, "
                   "window...], and groups = " +
                       std::to_string(groups));
  expect_divisible(kForward, op, w[0], groups);
  return {x[0], groups, w[0] / groups, w[1],
          detail::spatial_dims(kForward, op, detail::space_of(x), detail::space_of(w))};
}

Convolution of_y_and_w(const OpView& op, const Shape& y, const Shape& w) {
  const int64_t groups = groups_of(kGradInput, op);
  if (y.size() != w.size() || y[1] != w[0])
    refuse_invalid(
        kGradInput, op,
        "y is [batch, out channels, space...], w [out channels, channels / groups, window...]");
  expect_divisible(kGradInput, op, w[0], groups);
  const Shape in = detail::shape_of(
      detail::spatial_attribute(kGradInput, op, "extents", y.size() - detail::kFirstSpatialDim, 0));
  return {y[0], groups, w[0] / groups, w[1],
          detail::spatial_dims(kGradInput, op, in, detail::space_of(w))};
}

Convolution of_x_and_y(const OpView& op, const Shape& x, const Shape& y) {
  const int64_t groups = groups_of(kGradWeight, op);
  if (x.size() != y.size() || x[0] != y[0])
    refuse_invalid(kGradWeight, op,
                   "x is [batch, channels, space...], y [batch, out channels, space...]");
  expect_divisible(kGradWeight, op, x[1], groups);
  expect_divisible(kGradWeight, op, y[1], groups);
  const Shape window = detail::shape_of(
      detail::spatial_attribute(kGradWeight, op, "window", x.size() - detail::kFirstSpatialDim, 1));
  return {x[0], groups, y[1] / groups, x[1] / groups,
          detail::spatial_dims(kGradWeight, op, detail::space_of(x), window)};
}

template <Free kFree>
Convolution convolution_of(const OpView& op) {
  const Shape &a = op.inputs[0].shape, &b = op.inputs[1].shape;
  if constexpr (kFree == Free::kY) return of_x_and_w(op, a, b);
  if constexpr (kFree == Free::kX) return of_y_and_w(op, a, b);
  if constexpr (kFree == Free::kW) return of_x_and_y(op, a, b);
}

template <Free kFree>
std::vector<TensorType> infer_convolution(const OpView& op) {
  constexpr std::string_view kKind = kind_of(kFree);
  detail::expect_operands(kKind, op, 2);
  for (int i = 0; i < 2; ++i) detail::expect_image(kKind, op, i, letters_of(kFree)[i]);
  detail::expect_equal_dtypes(kKind, op, 0, letters_of(kFree)[0], 1, letters_of(kFree)[1]);
  const Convolution convolution = convolution_of<kFree>(op);
  for (const SpatialDim& dim : convolution.dims)
    if (dim.window < 1) refuse_invalid(kKind, op, "a window has at least one element in each dim");
  const bool fits =
      kFree == Free::kY || convolution.y() == op.inputs[kFree == Free::kX ? 0 : 1].shape;
  if (!fits)
    refuse_invalid(kKind, op,
                   "the window has the places [" + to_text(out_space(convolution.dims)) + "]");
  const DType dtype = detail::sum_dtype(kKind, op, op.inputs[0].dtype);
  if (kFree == Free::kY) return {{dtype, convolution.y()}};
  return {{dtype, kFree == Free::kX ? convolution.x() : convolution.w()}};
}

// Rule, work and kernel

/// One group has factors for its channels. Several groups are a factor of their own, in units of
/// the channels of one group.
struct ChannelFactors {
  DimFactor x, y, w_out, w_in;
};

ChannelFactors add_channels(ShardingRule& rule, const Convolution& convolution, Free free) {
  const auto kind = [free](Free of) {
    return of == free ? FactorKind::kReduction : FactorKind::kParallel;
  };
  if (convolution.groups == 1) {
    const int out = detail::add_factor(rule, "co", convolution.out_channels, kind(Free::kX));
    const int in = detail::add_factor(rule, "ci", convolution.in_channels, kind(Free::kY));
    return {{in, 1}, {out, 1}, {out, 1}, {in, 1}};
  }
  const int group = detail::add_factor(rule, "g", convolution.groups);
  const int in = detail::add_factor(rule, "ci", convolution.in_channels, FactorKind::kWhole);
  return {{group, convolution.in_channels},
          {group, convolution.out_channels},
          {group, convolution.out_channels},
          {in, 1}};
}

template <Free kFree>
ShardingRule rule_convolution(const OpView& op) {
  const Convolution convolution = convolution_of<kFree>(op);
  ShardingRule rule;
  const int batch =
      detail::add_factor(rule, "n", convolution.batch,
                         kFree == Free::kW ? FactorKind::kReduction : FactorKind::kParallel);
  const ChannelFactors channels = add_channels(rule, convolution, kFree);
  OperandFactors x{{batch, 1}, channels.x}, y{{batch, 1}, channels.y},
      w{channels.w_out, channels.w_in};
  detail::add_whole_window(rule, convolution.dims, w);
  if (kFree == Free::kX)
    detail::add_positions(rule, convolution.dims, x, y);
  else
    detail::add_places(rule, convolution.dims,
                       kFree == Free::kW ? FactorKind::kReduction : FactorKind::kParallel, y, x);
  rule.inputs = {kFree == Free::kX ? y : x, kFree == Free::kW ? y : w};
  rule.outputs = {kFree == Free::kY ? y : kFree == Free::kX ? x : w};
  rule.linear = {{0}, {1}};
  return rule;
}

/// A multiplication and an addition for each element of the window at each position, including the
/// padding.
template <Free kFree>
Work work_convolution(const OpView& op) {
  const Convolution convolution = convolution_of<kFree>(op);
  const int64_t products = element_count(convolution.y()) * convolution.in_channels *
                           element_count(window_space(convolution.dims));
  return {Flops(2 * static_cast<double>(products)), detail::operand_bytes(op)};
}

template <Free kFree>
KernelCall kernel_convolution(const OpView& op, std::span<const Split> factors) {
  const ShardingRule divided = rule_convolution<kFree>(op);
  const OperandFactors& x = kFree == Free::kX ? divided.outputs[0] : divided.inputs[0];
  const OperandFactors& y = kFree == Free::kX   ? divided.inputs[0]
                            : kFree == Free::kW ? divided.inputs[1]
                                                : divided.outputs[0];
  return detail::kernel_call(std::string(kind_of(kFree)),
                             spatial_ints(convolution_of<kFree>(op).dims, x, y, factors));
}

// Reference

/// Positions in the three tensors of one product.
struct LocalProduct {
  size_t x, w, y;
};

/// Calls visit(product) for every product outside of the padding.
template <typename Visit>
void for_each_product(const Convolution& convolution, Visit visit) {
  const std::vector<Tap> taps = taps_of(convolution.dims);
  const auto size = [](const Shape& space) { return element_count(space); };
  const size_t in_size = size(in_space(convolution.dims)),
               window_size = size(window_space(convolution.dims)),
               out_size = size(out_space(convolution.dims));
  const auto batch = static_cast<size_t>(convolution.batch),
             groups = static_cast<size_t>(convolution.groups),
             outs = static_cast<size_t>(convolution.out_channels),
             ins = static_cast<size_t>(convolution.in_channels);
  for (size_t n = 0; n < batch; ++n)
    for (size_t g = 0; g < groups; ++g)
      for (size_t o = 0; o < outs; ++o)
        for (size_t i = 0; i < ins; ++i) {
          const size_t x = ((n * groups + g) * ins + i) * in_size;
          const size_t w = ((g * outs + o) * ins + i) * window_size;
          const size_t y = ((n * groups + g) * outs + o) * out_size;
          for (const Tap& tap : taps) visit(LocalProduct{x + tap.in, w + tap.window, y + tap.out});
        }
}

/// Adds term(a, b) of every product to its sum.
template <Free kFree, typename Term>
void add_products(const ReferenceCall& call, std::vector<double>& sums, Term term) {
  const std::vector<double>&a = call.inputs[0]->values, &b = call.inputs[1]->values;
  for_each_product(convolution_of<kFree>(call.op), [&](const LocalProduct& at) {
    if constexpr (kFree == Free::kY) sums[at.y] += term(a[at.x], b[at.w]);
    if constexpr (kFree == Free::kX) sums[at.x] += term(a[at.y], b[at.w]);
    if constexpr (kFree == Free::kW) sums[at.w] += term(a[at.x], b[at.y]);
  });
}

template <Free kFree>
void reference_convolution(const ReferenceCall& call) {
  add_products<kFree>(call, call.outputs[0].values, [](double a, double b) { return a * b; });
}

/// The error of a sum of n products: n - 1 additions in any order, a rounding of each product, and
/// one more where parts are added.
template <Free kFree>
std::vector<double> tolerance_convolution(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  add_products<kFree>(call, terms, [](double, double) { return 1.0; });
  add_products<kFree>(call, errors, [](double a, double b) { return std::abs(a * b); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i] + 2, errors[i], call.outputs[output].type.dtype);
  return errors;
}

// Gradients

/// The attributes of the op of the family that computes `free`: those that all ops have, and the
/// extents that its operands do not determine.
Attributes attributes_of(const Attributes& attributes, std::string_view size = {},
                         const Shape& extents = {}) {
  Attributes result;
  for (const char* name : {"stride", "dilation", "low", "high"})
    result.set(name, attributes.integers(name));
  result.set("groups", attributes.integer("groups"));
  if (!size.empty())
    result.set(std::string(size), std::vector<int64_t>(extents.begin(), extents.end()));
  return result;
}

struct Family {
  Builder& builder;
  Attributes attributes;

  ValueId y(ValueId x, ValueId w, std::string_view name) const {
    return builder.op1(kForward, {x, w}, attributes_of(attributes), name);
  }
  ValueId x(ValueId y, ValueId w, const Shape& like, std::string_view name) const {
    return builder.op1(kGradInput, {y, w},
                       attributes_of(attributes, "extents", detail::space_of(like)), name);
  }
  ValueId w(ValueId x, ValueId y, const Shape& like, std::string_view name) const {
    return builder.op1(kGradWeight, {x, y},
                       attributes_of(attributes, "window", detail::space_of(like)), name);
  }
};

template <Free kFree>
Gradients gradient_convolution(Builder& builder, const GradientCall& call) {
  const Family family{builder, call.op.attributes};
  const ValueId a = call.op.inputs[0], b = call.op.inputs[1],
                flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(a).dtype);
  const Shape like_a = builder.shape(a), like_b = builder.shape(b);
  Gradients gradients(2);
  if constexpr (kFree == Free::kY) {
    if (call.wanted[0]) gradients[0] = family.x(flow, b, like_a, "x");
    if (call.wanted[1]) gradients[1] = family.w(a, flow, like_b, "w");
  }
  if constexpr (kFree == Free::kX) {
    if (call.wanted[0]) gradients[0] = family.y(flow, b, "y");
    if (call.wanted[1]) gradients[1] = family.w(flow, a, like_b, "w");
  }
  if constexpr (kFree == Free::kW) {
    if (call.wanted[0]) gradients[0] = family.x(b, flow, like_a, "x");
    if (call.wanted[1]) gradients[1] = family.y(a, flow, "y");
  }
  return gradients;
}

template <Free kFree>
constexpr Operator define() {
  return {.name = kind_of(kFree),
          .precision = PrecisionClass::kNarrow,
          .infer = infer_convolution<kFree>,
          .rule = rule_convolution<kFree>,
          .work = work_convolution<kFree>,
          .kernel = kernel_convolution<kFree>,
          .reference = reference_convolution<kFree>,
          .tolerance = tolerance_convolution<kFree>,
          .gradient = gradient_convolution<kFree>};
}

}  // namespace

std::span<const Operator> convolution_operators() {
  static const std::array operators{define<Free::kY>(), define<Free::kX>(), define<Free::kW>()};
  return operators;
}

}  // namespace tessera
