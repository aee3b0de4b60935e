// Writes ops of space into a graph: convolution, pooling, resize. x is [batch, channels, space...]
// with one to three dims of space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace tessera {

/// One entry for each dim of space; a list that is left empty means the default everywhere.
struct SpatialOptions {
  std::vector<int64_t> stride = {};          // 1
  std::vector<int64_t> dilation = {};        // 1: neighbours of the window are neighbours of x
  std::vector<int64_t> low = {}, high = {};  // padding before and behind: 0
  int64_t groups = 1;  // of channels; those of one group see nothing of the others
};
/// As many places as elements when the stride is 1: padding of half a window's reach, the odd one
/// behind.
SpatialOptions same_places(const std::vector<int64_t>& window, SpatialOptions options = {});

/// w[out, channels / groups, window...] -> y[batch, out, (x + low + high - dilation (window - 1) -
/// 1) / stride + 1, rounded down].
ValueId convolution(Builder& builder, ValueId x, ValueId w, const SpatialOptions& options = {},
                    std::string_view name = {});

/// The gradient of a convolution by its input, used forward: w[channels, out / groups, window...]
/// -> y[batch, out, (x - 1) stride + dilation (window - 1) + 1 - low - high + more].
///   more  per dim, fewer than the stride: of the extents whose convolution gives x, how many above
///   the least
ValueId transposed_convolution(Builder& builder, ValueId x, ValueId w,
                               const SpatialOptions& options = {}, std::vector<int64_t> more = {},
                               std::string_view name = {});

/// The largest element of each window; stride as wide as the window unless given. Of equal ones the
/// gradient goes to the first.
///   requires  no dilation, no groups, padding narrower than the window
ValueId max_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                 const SpatialOptions& options = {}, std::string_view name = {});
/// The mean of each window, of the elements inside x only, or with zeros for the padding.
ValueId average_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                     const SpatialOptions& options = {}, bool counts_padding = false,
                     std::string_view name = {});
/// [batch, channels]: the mean, or the largest, over all of space.
ValueId global_average_pool(Builder& builder, ValueId x, std::string_view name = {});
ValueId global_max_pool(Builder& builder, ValueId x, std::string_view name = {});

enum class ResizeMode { kNearest, kLinear };
enum class Corners { kHalfPixel, kAlign };
/// At other extents of space: ops/families/resize.cpp has the formulas.
ValueId resize(Builder& builder, ValueId x, const std::vector<int64_t>& extents, ResizeMode mode,
               Corners corners = Corners::kHalfPixel, std::string_view name = {});

}  // namespace tessera
