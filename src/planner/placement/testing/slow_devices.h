// Prices for tests of searches.
#pragma once

#include "cluster/cost/cost_model.h"

namespace tessera {

/// Devices whose arithmetic and memory are slow, or whose links are.
inline CostModel model_of(double flops_per_second, double link_bytes_per_second) {
  CostModel cost;
  cost.device.flops_per_second = flops_per_second;
  cost.device.bytes_per_second = flops_per_second / 10;
  cost.device.copied_bytes_per_second = 1e12;
  cost.device.launch = Seconds(1e-7);
  cost.links.any = {Seconds(1e-7), link_bytes_per_second};
  return cost;
}

}  // namespace tessera
