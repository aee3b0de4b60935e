// The families of models as networks.
#pragma once

#include <string>

#include "ir/models/internal/model_config.h"
#include "ir/models/network.h"

namespace tessera {

/// The network of a [model] table: of its graph file, or of its family. Its graphs are those of
/// build_model. Evaluation has outputs for the metrics `accuracy` and, of pixels,
/// `intersection_over_union`, but not the logits.
///   requires  the conditions that read_model_config checks
Network network_of(const ModelConfig& config);

/// The graph file of the network of a [model] table.
std::string graph_file_text(const ModelConfig& config);

}  // namespace tessera
