// The serial graphs of a configuration: training, evaluation and prediction.
#pragma once

#include "config/config.h"
#include "graph/graph.h"

namespace tessera {

/// Forward and loss as in training, with dropout.
Graph loss_graph(const RunConfig& config);
/// The serial training graph of a configuration: forward, backward, optimizer.
Graph training_graph(const RunConfig& config);
/// Forward and loss without dropout, over `batch` rows; outputs loss, count and correct
/// (engine/metrics.h), not the logits.
Graph evaluation_graph(const RunConfig& config, int64_t batch);
/// The logits of one row without dropout.
Graph prediction_graph(const RunConfig& config);
/// The same for one position of the row at a time, with the state that the layers keep of the
/// earlier positions.
///   requires  can_decode(config.model)
Graph decoding_graph(const RunConfig& config);

}  // namespace tessera
