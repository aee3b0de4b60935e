// The serial graph of a configuration.
#pragma once

#include "ir/graph/graph.h"
#include "training/config/config.h"

namespace tessera {

/// The training graph of the model of a configuration: forward, backward, optimizer.
Graph training_graph(const RunConfig& config);

}  // namespace tessera
