// A time below which no simulation of a plan's step goes, from the placements alone: what follows
// them in the compiler is not needed.
#pragma once

#include "base/units.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "simulator/step/deployment.h"

namespace tessera {

/// A lower bound of predict_step(...).step of the compiled plan.
///
/// The rank with the largest parts of each mesh computes one kernel at a time. Of each op it has as
/// many as there are micro-batches; none begins before the kernels that its inputs follow from, and
/// what follows from it comes after. The bound is the longest preemptive schedule of such a rank:
/// it includes the bubble of a pipeline. Exchanges take no time here, nor do Whiles and Ifs, nor
/// in a runtime that joins kernels those that it joins, and attention.
///
///   requires  `placed` is of the plan, whose ranks are in the deployment
///   source    one machine with heads and tails: Carlier, Eur. J. Oper. Res. 11(1), 1982
///   time      O(ops log ops) for each mesh
Seconds step_bound(const PlacedGraph& placed, const Plan& plan, const Deployment& deployment);

}  // namespace tessera
