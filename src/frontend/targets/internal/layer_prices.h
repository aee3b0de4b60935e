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
  double kept = 0;    // bytes of a layer from its forward to its backward
  double kept_ends = 0;
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

}  // namespace tessera
