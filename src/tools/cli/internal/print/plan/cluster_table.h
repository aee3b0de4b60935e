// The best plans of one model on several clusters, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "planner/search/find_plan.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// The best plan on a cluster. Without a step none fits.
struct ClusterRow {
  std::string cluster;
  int devices = 0;
  std::string plan;
  std::optional<Seconds> step = {};
  double units_per_second = 0, utilization = 0;
  FullestRank fullest = {};
};

/// nullptr: no plan fits.
ClusterRow cluster_row(const Planned& planned, int devices, const std::string& plan,
                       const EvaluatedCandidate* best);

/// "cluster  devices  plan  step  tokens/s  a device  MFU  memory", the first cluster as given.
std::string clusters_text(const std::vector<ClusterRow>& rows, const std::string& unit);
Document clusters_document(const std::vector<ClusterRow>& rows);

}  // namespace tessera
