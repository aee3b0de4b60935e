// What `tessera plan` and `--plan auto` have in common: a plan that is found for a configuration.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "planner/search/find_plan.h"
#include "tools/cli/internal/shared_options.h"
#include "training/engine/engine.h"

namespace tessera {

/// A configuration and a cluster for which a plan is wanted.
struct Planned {
  RunConfig config;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Cluster> cluster;  // its machines in canonical order
  bool is_reordered = false;               // is that not the order in which they are listed?
  std::string cluster_name;                // for readers
  std::string cluster_fingerprint;         // of the cluster with all of its memory
  PlanConstraints constraints = {};
  int64_t local_search_trials = 0;  // PlanSearchOptions
  PlanSearchResult result;
  /// Of a step, whatever the plan.
  std::string unit;  // "token"
  int64_t units = 0;
  double flops = 0;  // of the model

  PlanRequest request() const;
  const EvaluatedCandidate* best() const {
    return result.best ? &result.candidates[*result.best] : nullptr;
  }
  double units_per_second(const EvaluatedCandidate& candidate) const {
    return static_cast<double>(units) / candidate.step().value();
  }
  /// The part of the peak of the devices that the arithmetic of the model reaches: MFU.
  double utilization(const EvaluatedCandidate& candidate) const {
    return flops / (candidate.step().value() * candidate.prediction.peak_flops_per_second);
  }
};

/// The configuration and its graph; the cluster with at most `memory` on each device, and its
/// machines in canonical order (cluster/cluster/machine_order.h).
///   throws  UserError of the configuration and of the cluster
Planned to_be_planned(RunConfig config, std::shared_ptr<const Cluster> cluster,
                      std::string cluster_name, const std::optional<Bytes>& memory = {});

/// Candidates beside those of the searches and of the presets.
struct OtherCandidates {
  std::vector<Candidate> compared = {};  // plans that the user gives
  std::vector<Candidate> earlier = {};   // of earlier plan searches: EarlierPlans::candidates
};

/// Finds planned.result under planned.constraints, with planned.local_search_trials. Some presets
/// on fewer ranks are compared.
///   throws  UserError (3) for a memory in which not even the variables of the model fit when they
///           are divided evenly; UserError (78) for fixed keys that no plan for the model can have;
///           as find_plan
void find_result(Planned& planned, OtherCandidates others,
                 const EvaluationOptions& evaluation = {});

/// Changes of which each makes a plan fit, when none does.
struct NearestChanges {
  Bytes memory{0};                    // of a device, for the plan that lacks least
  std::optional<int64_t> batch = {};  // the largest half, quarter, ... of the batch that fits
  std::optional<int> ranks = {};      // a multiple by a power of two, on the same cluster
};
/// Plans again with smaller batches and with more devices.
///   requires  !planned.best() and candidates
///   stop      EvaluationOptions::stop: what is not tried then is left out
NearestChanges nearest_changes(const Planned& planned, const std::function<bool()>& stop = {});

/// The best plan as it is written to files.
///   requires  planned.best()
Document plan_document(const Planned& planned);

/// Whether the same plan search was done before: the graph, the cluster, the constraints and this
/// program, as a text for the cache of plans.
std::string cache_key(const Planned& planned);

/// "24GiB", "500 MB".
///   throws  UserError (2)
Bytes read_memory(const std::string& text);

}  // namespace tessera
