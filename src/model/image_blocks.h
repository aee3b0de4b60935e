// What models of images are made of. Other modules do not include it.
#pragma once

#include <string_view>

#include "model/layers.h"

namespace tessera {

/// x[B,C,H,W] by a square window, the places kept (with a stride, those of every stride-th):
/// variable `<name>.weight` [out,C,window,window] of deviation sqrt(2 / (window^2 out)), no bias.
/// Source of the deviation: He et al., arXiv 1502.01852, equation 14.
ValueId square_convolution(LayerContext& context, ValueId x, int64_t out, int64_t window,
                           int64_t stride, std::string_view name);

}  // namespace tessera
