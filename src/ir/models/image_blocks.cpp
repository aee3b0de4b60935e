#include "ir/models/image_blocks.h"

#include <cmath>

#include "ir/ops/spatial.h"

namespace tessera {

ValueId square_convolution(LayerContext& context, ValueId x, int64_t out, int64_t window,
                           int64_t stride, std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const int64_t channels = builder.shape(x)[1], reach = (window - 1) / 2;
  const double deviation = std::sqrt(2.0 / static_cast<double>(window * window * out));
  const ValueId weight = builder.variable("weight", {DType::kF32, {out, channels, window, window}},
                                          Initializer::normal(0, deviation));
  return convolution(builder, x, weight,
                     {.stride = {stride, stride}, .low = {reach, reach}, .high = {reach, reach}},
                     "conv");
}

}  // namespace tessera
