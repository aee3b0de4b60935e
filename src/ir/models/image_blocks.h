// Functions for models of images. Other modules do not include it.
#pragma once

#include <string_view>

#include "ir/models/layers.h"

namespace tessera {

/// The convolution of x[B,C,H,W] with a square window. The extents are kept, or divided by the
/// stride. The variable `<name>.weight` [out,C,window,window] has the deviation sqrt(2 / (window^2
/// out)); there is no bias.
///   source  of the deviation: He et al., arXiv 1502.01852, equation 14
ValueId square_convolution(LayerContext& context, ValueId x, int64_t out, int64_t window,
                           int64_t stride, std::string_view name);

}  // namespace tessera
