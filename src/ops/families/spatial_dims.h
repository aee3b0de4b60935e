// What the operators that slide a window over space share: convolution.cpp and pooling.cpp. Not for
// other rooms.
//
// Tensors are [batch, channels, space...] with one to three dims of space. Position `out` of a
// result sees, through element `w` of its window, position  out * stride - low + w * dilation  of
// the operand, if there is one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/detail.h"

namespace tessera::detail {

/// One dim of space.
struct SpatialDim {
  int64_t in = 0;      // extent of what the window slides over
  int64_t window = 1;  // elements of the window
  int64_t stride = 1;
  int64_t dilation = 1;       // distance of neighbours in the window
  int64_t low = 0, high = 0;  // padding before the first element and after the last
  int64_t out = 0;            // places of the window

  /// From the first element of the window to behind its last.
  int64_t reach() const { return (window - 1) * dilation + 1; }
};

/// The position of an element of the window at one of its positions: row-major among the dims of
/// space.
struct Tap {
  size_t out = 0;
  size_t window = 0;
  size_t in = 0;
};

inline constexpr int kFirstSpatialDim = 2;

/// Refuses operand `input` unless it is f32[batch, channels, space...] with one to three dims of
/// space.
void expect_image(std::string_view kind, const OpView& op, int input, std::string_view letter);

/// The attribute, which must have an entry of at least `least` for each of `count` dims of space.
const std::vector<int64_t>& spatial_attribute(std::string_view kind, const OpView& op,
                                              std::string_view attribute, int count, int64_t least);

/// Dims from the operand's and the window's extents and the attributes stride, low and high, and
/// dilation unless `dense`. Refuses a window that reaches beyond the padded operand.
std::vector<SpatialDim> spatial_dims(std::string_view kind, const OpView& op, const Shape& in,
                                     const Shape& window, bool dense = false);

/// The trailing extents of `shape`, and two leading ones before `space`.
Shape space_of(const Shape& shape);
Shape with_space(int64_t batch, int64_t channels, const Shape& space);
Shape shape_of(const std::vector<int64_t>& extents);

Shape in_space(const std::vector<SpatialDim>& dims);
Shape window_space(const std::vector<SpatialDim>& dims);
Shape out_space(const std::vector<SpatialDim>& dims);

/// Every tap inside the operand, by position of the window, then by position in the operand.
std::vector<Tap> taps_of(const std::vector<SpatialDim>& dims);

/// Where a rank's part of the dim begins, when the factors are divided as given.
LocalInt begin_of(const DimFactor& dim, std::span<const Split> factors);

/// Parameters of the kernels: for each dim window, stride, dilation, low, extent of the operand,
/// and where the local parts of the operand and of the places begin. `in` and `out` are the factors
/// of all dims of the two.
std::vector<LocalInt> spatial_ints(const std::vector<SpatialDim>& dims, const OperandFactors& in,
                                   const OperandFactors& out, std::span<const Split> factors);

/// Appends a factor for each dim of places, o0, o1, ..., and the positions that a part of them sees
/// as a window of the operand.
void add_places(ShardingRule& rule, const std::vector<SpatialDim>& dims, FactorKind kind,
                OperandFactors& out, OperandFactors& in);

/// Appends a factor for each dim of the operand, i0, i1, ..., and the places that see a part of it
/// as a window of these.
void add_positions(ShardingRule& rule, const std::vector<SpatialDim>& dims, OperandFactors& in,
                   OperandFactors& out);

/// Appends a factor, of the extent of `window.from`, to the dims that are divided by it, and its
/// window to those that need one.
void add_window(ShardingRule& rule, const std::string& name, FactorKind kind, const Window& window,
                OperandFactors& plain, OperandFactors& needed);

/// Appends whole factors k0, k1, ... for the elements of the window.
void add_whole_window(ShardingRule& rule, const std::vector<SpatialDim>& dims,
                      OperandFactors& weight);

}  // namespace tessera::detail
