// Plans that the planner finds for a network in C++.
#pragma once

#include <memory>

#include "cluster/cluster/cluster.h"
#include "planner/search/find_plan.h"
#include "training/engine/engine.h"

namespace tessera {

struct AutoPlanOptions {
  /// The devices; nullptr: the cores of this machine, with the rates of a common one.
  std::shared_ptr<const Cluster> cluster = nullptr;
  /// What the plan must have; `ranks` is set from the argument.
  PlanConstraints constraints = {};
};

/// The plan for `ranks` ranks that `tessera plan` finds:
///
///     Engine engine(network, settings, auto_plan(4), data);
///     verify_plan(network, settings, engine.plan(), data);
///
///   throws  when the engine is made: UserError (3) when no plan fits the memory of the devices
///   time    seconds to minutes; the same plan is found each time
PlanMaker auto_plan(int ranks, AutoPlanOptions options = {});

/// The same plan for these settings, to be stored or changed.
Plan find_plan_for(const Network& network, const TrainingSettings& settings, int ranks,
                   const AutoPlanOptions& options = {});

/// The plan of a candidate with what an engine needs of it: the placements of evaluation,
/// prediction and generation, too, and the cluster for which it was made.
///   cluster  fingerprint() of its description
Plan runnable_plan(const Candidate& candidate, const Network& network,
                   const TrainingSettings& settings, const PlanConstraints& constraints,
                   const std::string& cluster);

}  // namespace tessera
