// Constraints that say on which devices the stages with certain ops run.
#pragma once

#include <vector>

#include "planner/pipeline/layer_sequence.h"
#include "planner/pipeline/pipeline_choice.h"
#include "planner/search/sources/incumbents.h"
#include "simulator/step/deployment.h"

namespace tessera {

/// The constraints without what every device of the cluster meets.
///   throws  UserError (78) for a name that no forward op has, for devices that the cluster lacks,
///           and for fixed degrees dp, sp and tp of more ranks than there are such devices
PlanConstraints with_hardware_of(const Cluster& cluster, const Graph& graph,
                                 PlanConstraints constraints);

/// The ranks on devices, as the search for pipelines tries them: in the order of the devices; with
/// wanted devices the types of the cluster in every order, of more than four types in their own.
///   requires  the cluster has devices for all ranks
std::vector<Deployment> stage_deployments(const Cluster& cluster,
                                          const PlanConstraints& constraints);

/// The ranks on which the units with the ops of the constraints may be.
std::vector<UnitRanks> unit_ranks(const Graph& graph, const LayerSequence& sequence,
                                  const Deployment& deployment, const PlanConstraints& constraints);

/// The type of the devices of all these ranks; "" where they differ.
std::string common_type(const Deployment& deployment, const std::vector<Rank>& ranks);

}  // namespace tessera
