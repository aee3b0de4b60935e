#include "ir/ops/internal/families/spatial_dims.h"

#include <algorithm>
#include <iterator>

namespace tessera::detail {
namespace {

std::string dims_text(const std::vector<int64_t>& entries) {
  return to_text(Attribute(entries));
}

void expect_reach(std::string_view kind, const OpView& op, int d, const SpatialDim& dim) {
  if (dim.in + dim.low + dim.high >= dim.reach()) return;
  refuse(kind, op,
         "a window of " + std::to_string(dim.reach()) + " does not fit dim " +
             std::to_string(kFirstSpatialDim + d) + " of x, which has " + std::to_string(dim.in),
         "with padding of " + std::to_string(dim.low) + " and " + std::to_string(dim.high) +
             " the dim has " + std::to_string(dim.in + dim.low + dim.high) + " places",
         "pad more, use a smaller window, or check the layer that produces x");
}

/// The taps of one dim, by position of the window.
std::vector<Tap> taps_of_dim(const SpatialDim& dim) {
  std::vector<Tap> taps;
  for (int64_t out = 0; out < dim.out; ++out)
    for (int64_t w = 0; w < dim.window; ++w) {
      const int64_t in = out * dim.stride - dim.low + w * dim.dilation;
      if (in >= 0 && in < dim.in)
        taps.push_back({static_cast<size_t>(out), static_cast<size_t>(w), static_cast<size_t>(in)});
    }
  return taps;
}

template <typename Extent>
Shape extents_of(const std::vector<SpatialDim>& dims, Extent extent) {
  Shape shape;
  for (const SpatialDim& dim : dims) shape.push_back(dim.*extent);
  return shape;
}

}  // namespace

void expect_image(std::string_view kind, const OpView& op, int input, std::string_view letter) {
  expect_dtype(kind, op, input, letter, {DType::kF32});
  const TensorType& type = op.inputs[input];
  if (type.shape.size() >= 3 && type.shape.size() <= 5) return;
  refuse(kind, op,
         std::string(letter) + " " + to_text(type) + " has " + std::to_string(type.shape.size()) +
             " dims",
         std::string(kind) + " takes two leading dims, then one to three dims of space",
         "reshape the operand");
}

const std::vector<int64_t>& spatial_attribute(std::string_view kind, const OpView& op,
                                              std::string_view attribute, int count,
                                              int64_t smallest) {
  const std::vector<int64_t>& entries = op.attributes.integers(attribute);
  const bool fits = std::ssize(entries) == count &&
                    std::all_of(entries.begin(), entries.end(),
                                [smallest](int64_t entry) { return entry >= smallest; });
  if (fits) return entries;
  refuse(kind, op,
         std::string(attribute) + " " + dims_text(entries) + " does not fit " +
             std::to_string(count) + " dims of space",
         "it has an entry of at least " + std::to_string(smallest) + " for each dim of space",
         "correct the list");
}

std::vector<SpatialDim> spatial_dims(std::string_view kind, const OpView& op, const Shape& in,
                                     const Shape& window, bool dense) {
  const int count = in.size();
  const std::vector<int64_t>& stride = spatial_attribute(kind, op, "stride", count, 1);
  const std::vector<int64_t> dilation =
      dense ? std::vector<int64_t>(count, 1) : spatial_attribute(kind, op, "dilation", count, 1);
  const std::vector<int64_t>& low = spatial_attribute(kind, op, "low", count, 0);
  const std::vector<int64_t>& high = spatial_attribute(kind, op, "high", count, 0);
  std::vector<SpatialDim> dims;
  for (int d = 0; d < count; ++d) {
    const size_t i = d;
    SpatialDim dim{in[d], window[d], stride[i], dilation[i], low[i], high[i], 0};
    expect_reach(kind, op, d, dim);
    dim.out = (dim.in + dim.low + dim.high - dim.reach()) / dim.stride + 1;
    dims.push_back(dim);
  }
  return dims;
}

Shape space_of(const Shape& shape) {
  Shape space;
  for (int d = kFirstSpatialDim; d < shape.size(); ++d) space.push_back(shape[d]);
  return space;
}

Shape with_space(int64_t batch, int64_t channels, const Shape& space) {
  Shape shape{batch, channels};
  for (int64_t extent : space) shape.push_back(extent);
  return shape;
}

Shape shape_of(const std::vector<int64_t>& extents) {
  return Shape(std::span<const int64_t>(extents));
}

Shape in_space(const std::vector<SpatialDim>& dims) {
  return extents_of(dims, &SpatialDim::in);
}
Shape window_space(const std::vector<SpatialDim>& dims) {
  return extents_of(dims, &SpatialDim::window);
}
Shape out_space(const std::vector<SpatialDim>& dims) {
  return extents_of(dims, &SpatialDim::out);
}

std::vector<Tap> taps_of(const std::vector<SpatialDim>& dims) {
  std::vector<Tap> taps{{}};
  for (const SpatialDim& dim : dims) {
    std::vector<Tap> longer;
    for (const Tap& outer : taps)
      for (const Tap& inner : taps_of_dim(dim))
        longer.push_back({outer.out * static_cast<size_t>(dim.out) + inner.out,
                          outer.window * static_cast<size_t>(dim.window) + inner.window,
                          outer.in * static_cast<size_t>(dim.in) + inner.in});
    taps = std::move(longer);
  }
  std::stable_sort(taps.begin(), taps.end(),
                   [](const Tap& a, const Tap& b) { return a.out < b.out; });
  return taps;
}

LocalInt begin_of(const DimFactor& dim, std::span<const Split> factors) {
  return LocalInt::begin_of(split_of(dim, factors[dim.factor]));
}

std::vector<LocalInt> spatial_ints(const std::vector<SpatialDim>& dims, const OperandFactors& in,
                                   const OperandFactors& out, std::span<const Split> factors) {
  std::vector<LocalInt> ints;
  for (size_t d = 0; d < dims.size(); ++d) {
    const SpatialDim& dim = dims[d];
    for (int64_t value : {dim.window, dim.stride, dim.dilation, dim.low, dim.in})
      ints.emplace_back(value);
    for (const OperandFactors* operand : {&in, &out})
      ints.push_back(begin_of((*operand)[d + kFirstSpatialDim], factors));
  }
  return ints;
}

void add_window(ShardingRule& rule, const std::string& name, FactorKind kind, const Window& window,
                OperandFactors& plain, OperandFactors& needed) {
  const int factor = add_factor(rule, name, window.from, kind);
  plain.push_back({factor, 1});
  needed.push_back({factor, 1});
  if (!window.is_identity()) needed.back().window = window;
}

// Element w of the window at position o is at o * stride - low + w * dilation.

void add_places(ShardingRule& rule, const std::vector<SpatialDim>& dims, FactorKind kind,
                OperandFactors& out, OperandFactors& in) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const SpatialDim& dim = dims[d];
    add_window(rule, "o" + std::to_string(d), kind,
               {dim.out, dim.in, dim.stride, 1, -dim.low, dim.reach() - 1 - dim.low}, out, in);
  }
}

void add_positions(ShardingRule& rule, const std::vector<SpatialDim>& dims, OperandFactors& in,
                   OperandFactors& out) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const SpatialDim& dim = dims[d];
    add_window(rule, "i" + std::to_string(d), FactorKind::kParallel,
               {dim.in, dim.out, 1, dim.stride, dim.low - (dim.reach() - 1), dim.low}, in, out);
  }
}

void add_whole_window(ShardingRule& rule, const std::vector<SpatialDim>& dims,
                      OperandFactors& weight) {
  for (size_t d = 0; d < dims.size(); ++d)
    weight.push_back(
        {add_factor(rule, "k" + std::to_string(d), dims[d].window, FactorKind::kWhole), 1});
}

}  // namespace tessera::detail
