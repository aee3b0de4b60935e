// resize and resize_grad: x[N, C, in...] at other extents of space, by the nearest element or
// linearly between neighbours along each dim.
//
// Element `o` of the result reads x around the position
//     half_pixel      (o + 1/2) in / out - 1/2    elements are cells, whose centres are compared
//     align_corners   o (in - 1) / (out - 1)      elements are points, the corners stay corners;
//                     position 0 when out is 1
// limited to [0, in - 1]. Half way between two elements, the lower one is the nearest.
//   source  the modes of resize in the ONNX standard
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/internal/families/spatial_dims.h"

namespace tessera {
namespace {

using detail::Gradients;

/// One element of the operand that a position of the result reads, with its weight.
struct Look {
  int64_t position = 0;
  double weight = 1;
};

/// The settings that op and gradient share.
struct Resize {
  TensorType x, y;
  bool is_linear, aligns_corners;

  int dims() const { return x.shape.size() - detail::kFirstSpatialDim; }
};

/// The elements that position `place` reads along one dim. Positions are whole numbers of 1 /
/// `unit`, so that ties are exact.
std::vector<Look> looks_of(const Resize& resize, int64_t in, int64_t out, int64_t place) {
  const int64_t unit = resize.aligns_corners ? std::max<int64_t>(out - 1, 1) : 2 * out;
  const int64_t wanted =
      resize.aligns_corners ? place * (in - 1) * (out == 1 ? 0 : 1) : (2 * place + 1) * in - out;
  const int64_t position = std::min(std::max<int64_t>(wanted, 0), (in - 1) * unit);
  const int64_t below = position / unit, rest = position % unit;
  if (rest == 0) return {{below, 1}};
  if (!resize.is_linear) return {{2 * rest > unit ? below + 1 : below, 1}};
  const auto share = static_cast<double>(rest) / static_cast<double>(unit);
  return {{below, 1 - share}, {below + 1, share}};
}

/// Calls visit(position in y, position in x, weight) in the order of y.
template <typename Visit>
void for_each_look(const Resize& resize, Visit visit) {
  const Shape in = detail::space_of(resize.x.shape), out = detail::space_of(resize.y.shape);
  std::vector<std::vector<Look>> of_place;
  Dims place = Dims::filled(out.size(), 0);
  for (int64_t o = 0; o < element_count(out); ++o, advance_index(place, out)) {
    std::vector<Look> looks{{}};
    for (int d = 0; d < out.size(); ++d) {
      std::vector<Look> deeper;
      for (const Look& outer : looks)
        for (const Look& inner : looks_of(resize, in[d], out[d], place[d]))
          deeper.push_back({outer.position * in[d] + inner.position, outer.weight * inner.weight});
      looks = std::move(deeper);
    }
    of_place.push_back(std::move(looks));
  }
  const auto planes = static_cast<size_t>(resize.x.shape[0] * resize.x.shape[1]),
             in_size = static_cast<size_t>(element_count(in));
  for (size_t plane = 0; plane < planes; ++plane)
    for (size_t o = 0; o < of_place.size(); ++o)
      for (const Look& look : of_place[o])
        visit(plane * of_place.size() + o, plane * in_size + look.position, look.weight);
}

// Types

void expect_choice(std::string_view kind, const OpView& op, std::string_view attribute,
                   std::string_view a, std::string_view b) {
  const std::string& given = op.attributes.text(attribute);
  if (given == a || given == b) return;
  detail::refuse(kind, op, std::string(attribute) + " '" + given + "' is not known",
                 "there are '" + std::string(a) + "' and '" + std::string(b) + "'",
                 "use one of these");
}

/// The result's type: the operand with the extents of the attribute.
TensorType resized_type(std::string_view kind, const OpView& op, std::string_view letter) {
  detail::expect_operands(kind, op, 1);
  detail::expect_image(kind, op, 0, letter);
  expect_choice(kind, op, "mode", "nearest", "linear");
  expect_choice(kind, op, "corners", "half_pixel", "align_corners");
  const Shape& given = op.inputs[0].shape;
  const Shape space = detail::shape_of(
      detail::spatial_attribute(kind, op, "extents", given.size() - detail::kFirstSpatialDim, 0));
  return {op.inputs[0].dtype, detail::with_space(given[0], given[1], space)};
}

Resize resize_of(const OpView& op, const TensorType& x, const TensorType& y) {
  return {x, y, op.attributes.text("mode") == "linear",
          op.attributes.text("corners") == "align_corners"};
}

/// Refuses an empty operand with a result that is not empty.
void expect_source(std::string_view kind, const OpView& op, const Resize& resize) {
  for (int d = detail::kFirstSpatialDim; d < resize.x.shape.size(); ++d)
    if (resize.x.shape[d] == 0 && resize.y.shape[d] != 0)
      detail::refuse(
          kind, op,
          "dim " + std::to_string(d) + " of [" + to_text(resize.x.shape) + "] has no elements",
          "resizing to " + std::to_string(resize.y.shape[d]) + " elements needs at least one",
          "check the layer that produces x");
}

Resize forward_of(const OpView& op) {
  return resize_of(op, op.inputs[0], resized_type("resize", op, "x"));
}
Resize backward_of(const OpView& op) {
  return resize_of(op, resized_type("resize_grad", op, "dy"), op.inputs[0]);
}

std::vector<TensorType> infer_resize(const OpView& op) {
  const TensorType type = resized_type("resize", op, "x");
  expect_source("resize", op, forward_of(op));
  return {type};
}

std::vector<TensorType> infer_resize_grad(const OpView& op) {
  const TensorType type = resized_type("resize_grad", op, "dy");
  expect_source("resize_grad", op, backward_of(op));
  return {type};
}

// Rule, work and kernel

/// When both sides of a dim are cut into `units`: does every position read only its own unit?
bool stay_apart(const Resize& resize, int64_t in, int64_t out, int64_t units) {
  for (int64_t place = 0; place < out; ++place)
    for (const Look& look : looks_of(resize, in, out, place))
      if (look.position / (in / units) != place / (out / units)) return false;
  return true;
}

/// Is a dim divided between independent units? It is when each element is repeated k times, or one
/// is made of k.
bool has_units(const Resize& resize, int64_t in, int64_t out) {
  const int64_t units = std::min(in, out);
  return units > 0 && std::max(in, out) % units == 0 && stay_apart(resize, in, out, units);
}

/// The elements that positions read: those less than 1 from the position, or as near as the nearest
/// one. In positions times `den`, the position is num * place + offset.
Window seen_by_places(const Resize& resize, int64_t in, int64_t out) {
  if (in <= 1 || out <= 1)
    return {out, in, 1, 1, -std::max<int64_t>(out - 1, 0), std::max<int64_t>(in - 1, 0)};
  // The resolution is twice that of positions, for halves.
  const int64_t den = resize.aligns_corners ? 2 * (out - 1) : 2 * out,
                num = resize.aligns_corners ? 2 * (in - 1) : 2 * in;
  const int64_t offset = resize.aligns_corners ? 0 : in - out;
  const int64_t away = resize.is_linear ? den - 1 : den / 2;
  return {out, in, num, den, offset - away, offset + away - (resize.is_linear ? 0 : 1)};
}

/// The positions that read elements: the inverse relation.
Window seeing(const Resize& resize, int64_t in, int64_t out) {
  const Window seen = seen_by_places(resize, in, out);
  return {in, out, seen.den, seen.num, -seen.after, -seen.before};
}

/// A part of the result needs the elements that it reads; a part of the gradient needs the
/// positions that read it. Independent units need nothing of others.
ShardingRule rule_of(const Resize& resize, bool is_gradient) {
  ShardingRule rule;
  const int batch = detail::add_factor(rule, "n", resize.x.shape[0]),
            channels = detail::add_factor(rule, "c", resize.x.shape[1]);
  OperandFactors x{{batch, 1}, {channels, 1}}, y = x;
  for (int d = 0; d < resize.dims(); ++d) {
    const int64_t in = resize.x.shape[d + detail::kFirstSpatialDim],
                  out = resize.y.shape[d + detail::kFirstSpatialDim];
    const std::string number = std::to_string(d);
    if (has_units(resize, in, out)) {
      const int64_t units = std::min(in, out);
      const int factor = detail::add_factor(rule, "s" + number, units);
      x.push_back({factor, in / units});
      y.push_back({factor, out / units});
    } else if (is_gradient) {
      detail::add_window(rule, "i" + number, FactorKind::kParallel, seeing(resize, in, out), x, y);
    } else {
      detail::add_window(rule, "o" + number, FactorKind::kParallel, seen_by_places(resize, in, out),
                         y, x);
    }
  }
  rule.inputs = {is_gradient ? y : x};
  rule.outputs = {is_gradient ? x : y};
  rule.linear = {{0}};
  return rule;
}

ShardingRule rule_resize(const OpView& op) {
  return rule_of(forward_of(op), false);
}
ShardingRule rule_resize_grad(const OpView& op) {
  return rule_of(backward_of(op), true);
}

/// A multiplication and an addition for each neighbour.
Work work_of(const OpView& op, const Resize& resize) {
  const double neighbours = resize.is_linear ? std::pow(2, resize.dims()) : 1;
  return {Flops(2 * neighbours * detail::elements_of(resize.y.shape)), detail::operand_bytes(op)};
}

Work work_resize(const OpView& op) {
  return work_of(op, forward_of(op));
}
Work work_resize_grad(const OpView& op) {
  return work_of(op, backward_of(op));
}

/// The text is mode and corners. The integers are, for each dim, the extents of x and y, and the
/// begins of the local parts.
KernelCall kernel_of(const OpView& op, bool is_gradient, const Resize& resize,
                     std::span<const Split> factors) {
  const ShardingRule rule = rule_of(resize, is_gradient);
  const OperandFactors &x = is_gradient ? rule.outputs[0] : rule.inputs[0],
                       &y = is_gradient ? rule.inputs[0] : rule.outputs[0];
  KernelCall call =
      detail::kernel_call(is_gradient ? "resize_grad" : "resize", {}, {},
                          op.attributes.text("mode") + " " + op.attributes.text("corners"));
  for (int d = detail::kFirstSpatialDim; d < resize.x.shape.size(); ++d) {
    const size_t dim = d;
    for (int64_t extent : {resize.x.shape[d], resize.y.shape[d]}) call.ints.emplace_back(extent);
    for (const DimFactor& factor : {x[dim], y[dim]})
      call.ints.push_back(detail::begin_of(factor, factors));
  }
  return call;
}

KernelCall kernel_resize(const OpView& op, std::span<const Split> factors) {
  return kernel_of(op, false, forward_of(op), factors);
}
KernelCall kernel_resize_grad(const OpView& op, std::span<const Split> factors) {
  return kernel_of(op, true, backward_of(op), factors);
}

// Reference

void reference_resize(const ReferenceCall& call) {
  for_each_look(forward_of(call.op), [&](size_t y, size_t x, double weight) {
    call.outputs[0].values[y] += weight * call.inputs[0]->values[x];
  });
}

void reference_resize_grad(const ReferenceCall& call) {
  for_each_look(backward_of(call.op), [&](size_t y, size_t x, double weight) {
    call.outputs[0].values[x] += weight * call.inputs[0]->values[y];
  });
}

/// The tolerance of a sum of weighted elements: each weight is a product of up to three rounded
/// weights. One element of weight 1 is exact.
std::vector<double> tolerance_of(const Resize& resize, const std::vector<double>& terms,
                                 std::vector<double> errors) {
  for (size_t i = 0; i < errors.size(); ++i) {
    const double roundings = resize.is_linear ? terms[i] + 6 : terms[i] - 1;
    errors[i] = roundings <= 0 ? 0 : detail::summation_error(roundings, errors[i]);
  }
  return errors;
}

std::vector<double> tolerance_resize(const ReferenceCall& call, int) {
  const Resize resize = forward_of(call.op);
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  for_each_look(resize, [&](size_t y, size_t x, double weight) {
    terms[y] += 1;
    errors[y] += std::abs(weight * call.inputs[0]->values[x]);
  });
  return tolerance_of(resize, terms, std::move(errors));
}

std::vector<double> tolerance_resize_grad(const ReferenceCall& call, int) {
  const Resize resize = backward_of(call.op);
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  for_each_look(resize, [&](size_t y, size_t x, double weight) {
    terms[x] += 1;
    errors[x] += std::abs(weight * call.inputs[0]->values[y]);
  });
  return tolerance_of(resize, terms, std::move(errors));
}

// Gradients: both ops are linear, and each is the gradient of the other.

ValueId other(Builder& builder, const GradientCall& call, std::string_view kind,
              std::string_view name) {
  const Shape space = detail::space_of(builder.shape(call.op.inputs[0]));
  const Attributes attributes{{"mode", call.op.attributes.text("mode")},
                              {"corners", call.op.attributes.text("corners")},
                              {"extents", std::vector<int64_t>(space.begin(), space.end())}};
  return builder.op1(kind, {call.output_gradients.at(0).value()}, attributes, name);
}

Gradients gradient_resize(Builder& builder, const GradientCall& call) {
  return {other(builder, call, "resize_grad", "x")};
}
Gradients gradient_resize_grad(Builder& builder, const GradientCall& call) {
  return {other(builder, call, "resize", "dy")};
}

}  // namespace

std::span<const Operator> resize_operators() {
  static const std::array operators{Operator{.name = "resize",
                                             .precision = PrecisionClass::kGiven,
                                             .infer = infer_resize,
                                             .rule = rule_resize,
                                             .work = work_resize,
                                             .kernel = kernel_resize,
                                             .reference = reference_resize,
                                             .tolerance = tolerance_resize,
                                             .gradient = gradient_resize},
                                    Operator{.name = "resize_grad",
                                             .infer = infer_resize_grad,
                                             .rule = rule_resize_grad,
                                             .work = work_resize_grad,
                                             .kernel = kernel_resize_grad,
                                             .reference = reference_resize_grad,
                                             .tolerance = tolerance_resize_grad,
                                             .gradient = gradient_resize_grad}};
  return operators;
}

}  // namespace tessera
