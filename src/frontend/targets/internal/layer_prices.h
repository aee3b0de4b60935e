// What a layer of a transformer takes: the differences of simulated steps with one and two layers,
// and with one and two micro-batches.
#pragma once

#include "cluster/cluster/cluster.h"
#include "frontend/targets/setting.h"
#include "training/config/config.h"

namespace tessera {

/// Of one rank of a tensor-parallel group, for one micro-batch.
struct LayerPrices {
  Seconds layer{0};   // forward and backward of a layer
  Seconds ends{0};    // of embedding, logits and loss together
  Seconds update{0};  // of the parameters of a layer, once a step
};

/// Bytes that a row keeps from its forward to its backward, on one rank of a tensor-parallel group.
struct KeptBytes {
  double layer = 0, ends = 0;
};

/// Parameters of the model, of which each has four bytes.
struct ParameterCounts {
  double layer = 0, ends = 0;
};
ParameterCounts parameter_counts(const RunConfig& config);

/// Simulates four small steps.
///   setting  its tensor, sequence_parallel, recomputed and micro_batch
///   throws   UserError (78) for a setting that cannot be compiled
LayerPrices layer_prices(const RunConfig& config, const Cluster& cluster,
                         const ParallelSetting& setting);

/// Simulates two steps with enough rows for activations to be most of their memory.
///   setting  its tensor, sequence_parallel and recomputed
///   throws   as layer_prices
KeptBytes kept_bytes(const RunConfig& config, const Cluster& cluster,
                     const ParallelSetting& setting);

}  // namespace tessera
