// The results of the forward that a plan with recompute "auto" computes again.
#pragma once

#include <vector>

#include "base/units.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// What is known when the serial graph has been rewritten by all passes but recompute, and placed.
struct RecomputeRequest {
  const Graph& graph;           // after these passes
  const ShardedGraph& sharded;  // of it; with several micro-batches they are an axis of its meshes
  const Plan& plan;             // with Recompute::Kind::kAuto
  bool solves_wide = true;      // RecomputeTerms
};

struct RecomputeDecision {
  Recompute recompute;      // none, or patterns of ops
  std::vector<Bytes> kept;  // by stage: what a rank keeps, of all stages of its device
  bool is_made = true;      // RecomputeChoice
};

/// The decision of "auto": of all choices under which no rank keeps more than
/// plan.recompute.limit of results of the forward, one that costs least
/// (compiler/rewrite/cheapest_recompute.h).
///
///   kept     in the canonical placement of a value, once for each micro-batch that is in
///            flight when the schedule has the most of them; inputs and variables are not counted,
///            nor what kernels and exchanges need while they run
///   cost     the kernels of one rank by plan.cost, without the exchanges among them
///   throws   UserError (3) when even the least that a rank can keep is more than the limit
RecomputeDecision decide_recompute(const RecomputeRequest& request);

///   throws  UserError (78) for a plan that cannot have "auto": one with explicit shardings, which
///           place what is computed again, too
void check_decides_recompute(const Plan& plan);

/// The most micro-batches of `stage` that are in flight at a time under the plan's schedule; of
/// schedules for which that depends on times, or of stages that they do not accept, all of them.
int max_in_flight(const Plan& plan, int stage);

}  // namespace tessera
