// The step and the memory of a setting in closed form.
#pragma once

#include "cluster/cluster/cluster.h"
#include "frontend/targets/internal/setting_steps.h"
#include "frontend/targets/setting.h"

namespace tessera {

/// What prices of settings have in common.
struct PricedModel {
  const TransformerSizes& model;
  const Cluster& cluster;
  ParameterCounts parameters;
};

/// The step of the slowest stage: its micro-batches and the bubble of its schedule, the update, and
/// exchanges of gradients and parameters that the backward does not hide. Memory: parameters,
/// gradients and optimizer state as `zero` divides them, and the activations of the micro-batches
/// that are in flight.
///   source  bubbles and micro-batches in flight: Narayanan et al., SC 2021, sections 2.2 and 3.2;
///           ZeRO: Rajbhandari et al., SC 2020, section 5
PricedSetting priced(const ParallelSetting& setting, const LayerPrices& prices,
                     const KeptBytes& kept, const PricedModel& model);

}  // namespace tessera
