// The cost model: what computing, communicating and copying cost. Every pass, search and simulation
// takes its prices from one value of it. It knows numbers, element types, classes of operations,
// names of mesh axes and ranks; it knows no graphs, placements or tasks.
//
// The default prices ranks that are threads of one machine. Other machines: cost files
// (cluster/cost/cost_file.h, docs/costs.md).
#pragma once

#include <string>

#include "cluster/cost/device_cost.h"
#include "cluster/cost/internal/price.h"
#include "cluster/cost/links.h"

namespace tessera {

struct CostModel {
  DeviceCost device = {};        // of each rank
  LinkCosts links = {};          // between ranks
  LinkCost host_to_device = {};  // copies between the memories of a device and its host
  LinkCost device_to_host = {};
  /// The time from the end of a pipeline pass to the start of a pass of another stage that needs
  /// it, as a part of the time of a micro-batch on the busiest device.
  double stage_transfer = 0.01;
  /// The fingerprint of the cluster whose prices these are (cluster/cluster/sources.h); "": of
  /// none.
  std::string cluster = {};

  bool operator==(const CostModel&) const = default;
};

}  // namespace tessera
