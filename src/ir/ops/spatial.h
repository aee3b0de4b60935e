// Writes spatial ops into a graph: convolution, pooling, resize. x is [batch, channels, space...]
// with one to three dims of space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/builder.h"

namespace tessera {

/// One entry for each dim of space. An empty list stands for the default everywhere.
struct SpatialOptions {
  std::vector<int64_t> stride = {};    // default 1
  std::vector<int64_t> dilation = {};  // default 1: neighbours in the window are neighbours in x
  std::vector<int64_t> low = {}, high = {};  // padding before and behind, default 0
  int64_t groups = 1;                        // of channels; each group reads only its own channels
};
/// Options with which the result has the extents of x when the stride is 1. The padding is half of
/// the window's reach; an odd element is behind.
SpatialOptions same_places(const std::vector<int64_t>& window, SpatialOptions options = {});

/// w[out, channels / groups, window...] -> y[batch, out, (x + low + high - dilation (window - 1) -
/// 1) / stride + 1, rounded down].
ValueId convolution(Builder& builder, ValueId x, ValueId w, const SpatialOptions& options = {},
                    std::string_view name = {});

/// The gradient of a convolution by its input, used as a forward op: w[channels, out / groups,
/// window...] -> y[batch, out, (x - 1) stride + dilation (window - 1) + 1 - low - high + more].
///   more  by dim, less than the stride: selects one of the extents whose convolution has the
///         extent of x, as a distance from the least one
ValueId transposed_convolution(Builder& builder, ValueId x, ValueId w,
                               const SpatialOptions& options = {}, std::vector<int64_t> more = {},
                               std::string_view name = {});

/// The largest element of each window. The stride is the width of the window unless it is given. Of
/// equal elements the first one gets the gradient.
///   requires  no dilation, no groups, padding narrower than the window
ValueId max_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                 const SpatialOptions& options = {}, std::string_view name = {});
/// The mean of each window: of the elements inside x only, or with zeros for the padding.
ValueId average_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                     const SpatialOptions& options = {}, bool counts_padding = false,
                     std::string_view name = {});
/// [batch, channels]: the mean, or the maximum, over all of space.
ValueId global_average_pool(Builder& builder, ValueId x, std::string_view name = {});
ValueId global_max_pool(Builder& builder, ValueId x, std::string_view name = {});

enum class ResizeMode { kNearest, kLinear };
enum class Corners { kHalfPixel, kAlign };
/// x at other extents of space. ir/ops/families/resize.cpp has the formulas.
ValueId resize(Builder& builder, ValueId x, const std::vector<int64_t>& extents, ResizeMode mode,
               Corners corners = Corners::kHalfPixel, std::string_view name = {});

}  // namespace tessera
