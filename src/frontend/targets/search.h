// The best setting of a target: a grid of all that it can run, priced in closed form from steps of
// two and three layers, of which the best ones are simulated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "frontend/targets/rules.h"
#include "frontend/targets/setting.h"
#include "planner/search/find_plan.h"
#include "training/config/config.h"

namespace tessera {

/// All settings of the target for a model, a batch and a number of ranks that break no rule.
std::vector<ParallelSetting> settings_of_target(Target target, const TransformerSizes& model,
                                                int64_t batch, const TargetMachines& machines);

struct TargetSearch {
  const RunConfig& config;  // its model has its sizes
  const Cluster& cluster;
  Target target = Target::kTorchtitan;
  int ranks = 0;  // of the plan, on as many devices of the cluster
  std::optional<ParallelSetting> current = {};
  /// Candidates that are simulated at most, beside the current one: fewer of long pipelines, and
  /// none whose price says that it is slower than one that was simulated.
  int64_t simulated = 50;
  /// No further simulation begins after it has returned true.
  std::function<bool()> stop = {};
  std::function<void(const std::string& name)> progress = {};
};

struct TargetResult {
  TransformerSizes model;
  TargetMachines machines;
  int64_t settings = 0;               // of the grid
  std::vector<PricedSetting> priced;  // the fastest first, those that do not fit, too
  /// Simulated, the best that fits first.
  struct Simulated {
    ParallelSetting setting;
    std::optional<PricedSetting> priced;  // of settings of the grid
    EvaluatedCandidate evaluated;
  };
  std::vector<Simulated> simulated;
  std::optional<size_t> best;     // of `simulated`
  std::optional<size_t> current;  // the same
};

/// Searches.
///   throws  UserError: 78 for a model that is no transformer, and for a current setting that
///   breaks
///           rules of the target, with all of them; 3 when the grid is empty
TargetResult search_target(const TargetSearch& search);

}  // namespace tessera
