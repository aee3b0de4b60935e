// What the operators that slide a window over space share: convolution.cpp and pooling.cpp. Not for other rooms.
//
// Tensors are [batch, channels, space...] with one to three dims of space. Position `out` of a result sees, through element `w` of its
// window, position  out * stride - low + w * dilation  of the operand, if there is one.
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

/// Where an element of the window lies at one of its places: row-major positions among the dims of space.
struct Tap {
  size_t out = 0;
  size_t window = 0;
  size_t in = 0;
};

inline constexpr int kFirstSpatialDim = 2;

/// Refuses operand `input` unless it is f32[batch, channels, space...] with one to three dims of space.
void expect_image(std::string_view kind, const OpView& op, int input, std::string_view letter);

/// The attribute, which must have an entry of at least `least` for each of `count` dims of space.
const std::vector<int64_t>& spatial_attribute(std::string_view kind, const OpView& op, std::string_view attribute, int count,
                                              int64_t least);

/// Dims from the operand's and the window's extents and the attributes stride, low and high, and dilation unless `dense`.
/// Refuses a window that reaches beyond the padded operand.
std::vector<SpatialDim> spatial_dims(std::string_view kind, const OpView& op, const Shape& in, const Shape& window, bool dense = false);

/// The trailing extents of `shape`, and two leading ones before `space`.
Shape space_of(const Shape& shape);
Shape with_space(int64_t batch, int64_t channels, const Shape& space);
Shape shape_of(const std::vector<int64_t>& extents);

Shape in_space(const std::vector<SpatialDim>& dims);
Shape window_space(const std::vector<SpatialDim>& dims);
Shape out_space(const std::vector<SpatialDim>& dims);

/// Every tap that lies in the operand, by place of the window, then by position in the operand.
std::vector<Tap> taps_of(const std::vector<SpatialDim>& dims);

/// Parameters of the kernels: for each dim window, stride, dilation, low, extent of the operand, and where the local parts of the operand
/// and of the result begin.
std::vector<LocalInt> spatial_ints(const std::vector<SpatialDim>& dims);

/// Appends whole factors i0, i1, ... for the extents of space of an operand, and appends them to its factors.
void add_whole_space(ShardingRule& rule, std::string_view prefix, const Shape& space, std::vector<OperandFactors*> operands);

}  // namespace tessera::detail
