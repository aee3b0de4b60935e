// --plan auto: the plan of a run is found when the run begins.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/internal/run/plan_search.h"
#include "tools/cli/internal/shared_options.h"
#include "training/engine/engine.h"

namespace tessera {

struct AutomaticPlan {
  Plan plan;
  std::vector<std::string> verdict;  // in lines: verdict_lines
};

/// The plan for `ranks` ranks, exactly, on the cluster of the options, by default the cores of this
/// machine. It comes from the cache when the same was planned before. Of several processes the
/// leader plans, and all take its plan.
///
///   file    its [parallel] binds (fixed_decisions.h). The sizes of its run are set from the data
///           here
///   throws  UserError: 3 when no plan fits, otherwise as find_answer
AutomaticPlan find_automatic_plan(const ConfigFile& file, int ranks,
                                  const AutomaticOptions& options);
/// The same; tells the verdict on standard error.
Plan automatic_plan(const ConfigFile& file, int ranks, const AutomaticOptions& options);

/// A configuration for which a plan of `ranks` ranks is wanted: its graph, the cluster of the
/// options and the constraints. Its result is empty.
Planned automatic_plan_search(const ConfigFile& file, int ranks, const AutomaticOptions& options);

/// The cluster of the options, by default the cores of this machine.
std::shared_ptr<const Cluster> cluster_for(const AutomaticOptions& options);

/// The number of ranks of an automatic plan when neither the command line nor the launcher gives
/// one: the devices of the cluster.
int default_ranks(const AutomaticOptions& options);

}  // namespace tessera
