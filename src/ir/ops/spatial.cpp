#include "ir/ops/spatial.h"

#include <numeric>

#include "ir/ops/internal/families/spatial_dims.h"

namespace tessera {
namespace {

size_t space_count(const Builder& builder, ValueId x) {
  return std::max(builder.shape(x).size() - detail::kFirstSpatialDim, 0);
}

std::vector<int64_t> filled(const std::vector<int64_t>& given, size_t count, int64_t value) {
  return given.empty() ? std::vector<int64_t>(count, value) : given;
}

Attributes window_attributes(const SpatialOptions& options, const std::vector<int64_t>& stride,
                             size_t count) {
  return {{"stride", stride},
          {"low", filled(options.low, count, 0)},
          {"high", filled(options.high, count, 0)}};
}

Attributes convolution_attributes(const SpatialOptions& options, size_t count) {
  Attributes attributes = window_attributes(options, filled(options.stride, count, 1), count);
  attributes.set("dilation", filled(options.dilation, count, 1));
  attributes.set("groups", options.groups);
  return attributes;
}

Attributes pooling_attributes(const SpatialOptions& options, const std::vector<int64_t>& window) {
  ensure(options.dilation.empty() && options.groups == 1,
         "a pooling has no dilation and no groups");
  Attributes attributes =
      window_attributes(options, options.stride.empty() ? window : options.stride, window.size());
  attributes.set("window", window);
  return attributes;
}

std::vector<int64_t> spatial_dims(const Builder& builder, ValueId x) {
  std::vector<int64_t> dims(space_count(builder, x));
  std::iota(dims.begin(), dims.end(), detail::kFirstSpatialDim);
  return dims;
}

}  // namespace

SpatialOptions same_places(const std::vector<int64_t>& window, SpatialOptions options) {
  const std::vector<int64_t> dilation = filled(options.dilation, window.size(), 1);
  options.low.clear();
  options.high.clear();
  for (size_t d = 0; d < window.size(); ++d) {
    const int64_t around = (window[d] - 1) * dilation.at(d);
    options.low.push_back(around / 2);
    options.high.push_back(around - around / 2);
  }
  return options;
}

ValueId convolution(Builder& builder, ValueId x, ValueId w, const SpatialOptions& options,
                    std::string_view name) {
  return builder.op1("convolution", {x, w},
                     convolution_attributes(options, space_count(builder, x)), name);
}

ValueId transposed_convolution(Builder& builder, ValueId x, ValueId w,
                               const SpatialOptions& options, std::vector<int64_t> more,
                               std::string_view name) {
  const size_t count = space_count(builder, x);
  Attributes attributes = convolution_attributes(options, count);
  const Shape from = builder.shape(x), window = builder.shape(w);
  more = filled(more, count, 0);
  std::vector<int64_t> extents;
  for (size_t d = 0; d < count && window.size() == from.size(); ++d) {
    const int dim = static_cast<int>(d) + detail::kFirstSpatialDim;
    const int64_t reach = attributes.integers("dilation").at(d) * (window[dim] - 1) + 1;
    extents.push_back((from[dim] - 1) * attributes.integers("stride").at(d) + reach -
                      attributes.integers("low").at(d) - attributes.integers("high").at(d) +
                      more.at(d));
  }
  attributes.set("extents", extents);
  return builder.op1("convolution_grad_input", {x, w}, attributes,
                     name.empty() ? "transposed_convolution" : name);
}

ValueId max_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                 const SpatialOptions& options, std::string_view name) {
  return builder.op1("max_pool", {x}, pooling_attributes(options, window), name);
}

ValueId average_pool(Builder& builder, ValueId x, const std::vector<int64_t>& window,
                     const SpatialOptions& options, bool counts_padding, std::string_view name) {
  Attributes attributes = pooling_attributes(options, window);
  attributes.set("counts_padding", counts_padding);
  return builder.op1("average_pool", {x}, attributes, name);
}

ValueId global_average_pool(Builder& builder, ValueId x, std::string_view name) {
  const std::vector<int64_t> dims = spatial_dims(builder, x);
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(builder.shape(x)[dim]);
  return builder.mul_scalar(builder.reduce_sum(x, dims, "pool_sum"), 1 / count,
                            name.empty() ? "global_average_pool" : name);
}

ValueId global_max_pool(Builder& builder, ValueId x, std::string_view name) {
  return builder.reduce(ReduceOp::kMax, x, spatial_dims(builder, x),
                        name.empty() ? "global_max_pool" : name);
}

ValueId resize(Builder& builder, ValueId x, const std::vector<int64_t>& extents, ResizeMode mode,
               Corners corners, std::string_view name) {
  return builder.op1(
      "resize", {x},
      {{"mode", std::string(mode == ResizeMode::kNearest ? "nearest" : "linear")},
       {"corners", std::string(corners == Corners::kHalfPixel ? "half_pixel" : "align_corners")},
       {"extents", extents}},
      name);
}

}  // namespace tessera
