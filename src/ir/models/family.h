// The families of models as networks.
#pragma once

#include "ir/models/internal/model_config.h"
#include "ir/models/network.h"

namespace tessera {

/// The network of a [model] table. Its graphs are those of build_model. Evaluation has outputs for
/// the metrics `accuracy` and, of pixels, `intersection_over_union`, but not the logits.
///   requires  the conditions that read_model_config checks
Network network_of(const ModelConfig& config);

}  // namespace tessera
