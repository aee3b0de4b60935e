// The serial graphs of a configuration: what is trained, evaluated and asked.
#pragma once

#include "config/config.h"
#include "graph/graph.h"

namespace tessera {

/// Forward and loss as training has them, with dropout.
Graph loss_graph(const RunConfig& config);
/// The serial training graph of a configuration: forward, backward, optimizer.
Graph training_graph(const RunConfig& config);
/// Forward and loss without dropout, over `batch` rows; outputs loss, count and correct
/// (engine/metrics.h), not the logits.
Graph evaluation_graph(const RunConfig& config, int64_t batch);
/// Logits of one row without dropout.
Graph prediction_graph(const RunConfig& config);
/// The same, one place of the row at a time, with what the layers keep of the earlier ones.
///   requires  can_decode(config.model)
Graph decoding_graph(const RunConfig& config);

}  // namespace tessera
