// Functions for the operators that slide a window over space: convolution.cpp and pooling.cpp.
// Other modules do not include it.
//
// Tensors are [batch, channels, space...] with one to three dims of space. Position `out` of a
// result reads, through element `w` of its window, position  out * stride - low + w * dilation  of
// the operand, if there is one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/ops/detail.h"

namespace tessera::detail {

/// One dim of space.
struct SpatialDim {
  int64_t in = 0;      // extent that the window slides over
  int64_t window = 1;  // elements of the window
  int64_t stride = 1;
  int64_t dilation = 1;       // distance of neighbouring elements of the window
  int64_t low = 0, high = 0;  // padding before the first element and after the last
  int64_t out = 0;            // number of positions of the window

  /// The distance from the first element of the window to the end of its last one.
  int64_t reach() const { return (window - 1) * dilation + 1; }
};

/// An element of the window at one of the window's positions. Positions are row-major among the
/// dims of space.
struct Tap {
  size_t out = 0;
  size_t window = 0;
  size_t in = 0;
};

inline constexpr int kFirstSpatialDim = 2;

/// Refuses operand `input` unless it is f32[batch, channels, space...] with one to three dims of
/// space.
void expect_image(std::string_view kind, const OpView& op, int input, std::string_view letter);

/// The attribute, which must have an entry of at least `least` for each of the `count` dims of
/// space.
const std::vector<int64_t>& spatial_attribute(std::string_view kind, const OpView& op,
                                              std::string_view attribute, int count,
                                              int64_t smallest);

/// The dims, from the extents of the operand and the window and from the attributes stride, low and
/// high, and dilation unless `dense`. Refuses a window that reaches beyond the padded operand.
std::vector<SpatialDim> spatial_dims(std::string_view kind, const OpView& op, const Shape& in,
                                     const Shape& window, bool dense = false);

/// The extents of the dims of space, which follow two leading dims in `shape`.
Shape space_of(const Shape& shape);
Shape with_space(int64_t batch, int64_t channels, const Shape& space);
Shape shape_of(const std::vector<int64_t>& extents);

Shape in_space(const std::vector<SpatialDim>& dims);
Shape window_space(const std::vector<SpatialDim>& dims);
Shape out_space(const std::vector<SpatialDim>& dims);

/// Every tap inside the operand, in the order of the window's position, then of the position in the
/// operand.
std::vector<Tap> taps_of(const std::vector<SpatialDim>& dims);

/// The first index of a rank's part of the dim, when the factors are divided as given.
LocalInt begin_of(const DimFactor& dim, std::span<const Split> factors);

/// The parameters of the kernels. For each dim they are: window, stride, dilation, low, extent of
/// the operand, and the first indices of the local parts of the operand and of the window
/// positions. `in` and `out` are the factors of all dims of the two.
std::vector<LocalInt> spatial_ints(const std::vector<SpatialDim>& dims, const OperandFactors& in,
                                   const OperandFactors& out, std::span<const Split> factors);

/// Appends a factor for each dim of window positions, o0, o1, ..., and the positions of the operand
/// that a part of them reads, as a window of the operand.
void add_places(ShardingRule& rule, const std::vector<SpatialDim>& dims, FactorKind kind,
                OperandFactors& out, OperandFactors& in);

/// Appends a factor for each dim of the operand, i0, i1, ..., and the window positions that read a
/// part of it, as a window of these.
void add_positions(ShardingRule& rule, const std::vector<SpatialDim>& dims, OperandFactors& in,
                   OperandFactors& out);

/// Appends a factor of the extent of `window.from` to the dims that it divides, and its window to
/// the dims that need one.
void add_window(ShardingRule& rule, const std::string& name, FactorKind kind, const Window& window,
                OperandFactors& plain, OperandFactors& needed);

/// Appends whole factors k0, k1, ... for the elements of the window.
void add_whole_window(ShardingRule& rule, const std::vector<SpatialDim>& dims,
                      OperandFactors& weight);

}  // namespace tessera::detail
