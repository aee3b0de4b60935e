// What `tessera plan` and `--plan auto` have in common: a plan that is found for a configuration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared_options.h"
#include "cluster/cluster.h"
#include "engine/engine.h"
#include "search/find_plan.h"

namespace tessera {

/// A configuration and a cluster for which a plan is wanted.
struct Planned {
  RunConfig config;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Cluster> cluster;
  std::string cluster_name;  // for readers
  PlanningAnswer answer;
  /// Of a step, whatever the plan.
  std::string unit;  // "token"
  int64_t units = 0;
  double flops = 0;  // of the model

  PlanRequest request() const { return {*graph, *cluster}; }
  const EvaluatedCandidate* best() const {
    return answer.best ? &answer.candidates[*answer.best] : nullptr;
  }
  double units_per_second(const EvaluatedCandidate& candidate) const {
    return static_cast<double>(units) / candidate.step().value();
  }
  /// The part of the peak of the devices that the arithmetic of the model reaches: MFU.
  double utilization(const EvaluatedCandidate& candidate) const {
    return flops / (candidate.step().value() * candidate.prediction.peak_flops_per_second);
  }
};

/// The configuration and its graph; the cluster with at most `memory` on each device.
///   throws  UserError of the configuration and of the cluster
Planned to_be_planned(RunConfig config, std::shared_ptr<const Cluster> cluster,
                      std::string cluster_name, const std::optional<Bytes>& memory = {});

/// The plan of a candidate for all programs of the model: a search makes the placements of the
/// training step only.
///   throws  UserError (78) as compile
Plan complete_plan(const Planned& planned, const EvaluatedCandidate& candidate);

/// "24GiB", "500 MB".
///   throws  UserError (2)
Bytes read_memory(const std::string& text);

/// Refuses a memory in which not even the variables of the model fit when they are divided evenly.
///   throws  UserError (78)
void check_memory(const Planned& planned, int ranks);

}  // namespace tessera
