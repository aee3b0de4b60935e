// Normalization of images x[batch, channels, space...]: compositions of primitive operators, like
// the layers of layers.h.
//
// Statistics are sums divided by counts: first the mean, then the mean square of the deviations. So
// they are exact under every division of batch and space. Epsilon is 1e-5.
#pragma once

#include <string_view>

#include "ir/models/layers.h"

namespace tessera {

/// Normalizes each channel over batch and space: weight (x - mean) / sqrt(variance + epsilon) +
/// bias, with the variables `<name>.weight` (ones) and `<name>.bias` (zeros) [channels].
///
/// In training the statistics are those of the batch, and the variables `<name>.running_mean`
/// (zeros) and `<name>.running_variance` (ones) follow them: new = (1 - momentum) old + momentum
/// batch, with the unbiased variance, n / (n - 1). In evaluation the running statistics are used
/// and do not change. No gradient flows through them.
///   throws  UserError (65) when x has fewer than two dims
///   source  Ioffe and Szegedy, arXiv 1502.03167
ValueId batch_norm(LayerContext& context, ValueId x, std::string_view name, double momentum = 0.1);

/// Normalizes each sample and group of channels, over the group and space. The variables are the
/// first two of batch_norm.
///   requires  groups divides the channels
///   source    Wu and He, arXiv 1803.08494
ValueId group_norm(LayerContext& context, ValueId x, int64_t groups, std::string_view name);

/// Normalizes each sample and channel over space: group_norm with as many groups as channels.
///   source  Ulyanov et al., arXiv 1607.08022
ValueId instance_norm(LayerContext& context, ValueId x, std::string_view name);

}  // namespace tessera
