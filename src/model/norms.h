// Normalisation of images x[batch, channels, space...]: compositions of primitive operators, as the
// layers of layers.h.
//
// Statistics are sums divided by counts, first the mean, then the mean square of what is left:
// exact under every division of batch and space. Epsilon is 1e-5.
#pragma once

#include <string_view>

#include "model/layers.h"

namespace tessera {

/// By channel, over batch and space: weight (x - mean) / sqrt(variance + epsilon) + bias; variables
/// `<name>.weight` (ones), `<name>.bias` (zeros) [channels].
///
/// In training the statistics are those of the batch, and the variables `<name>.running_mean`
/// (zeros) and `<name>.running_variance` (ones) follow them: new = (1 - momentum) old + momentum
/// batch, of the variance without bias, n / (n - 1). In evaluation the running ones are used and
/// kept. No gradient flows through the running statistics. Source: Ioffe and Szegedy, arXiv
/// 1502.03167.
///   throws  UserError (65) when x has fewer than two dims
ValueId batch_norm(LayerContext& context, ValueId x, std::string_view name, double momentum = 0.1);

/// By sample and group of channels, over the group and space; variables as batch_norm's first two.
/// Source: Wu and He, arXiv 1803.08494.
///   requires  groups divides the channels
ValueId group_norm(LayerContext& context, ValueId x, int64_t groups, std::string_view name);

/// By sample and channel, over space: group_norm of as many groups as channels. Source: Ulyanov et
/// al., arXiv 1607.08022.
ValueId instance_norm(LayerContext& context, ValueId x, std::string_view name);

}  // namespace tessera
