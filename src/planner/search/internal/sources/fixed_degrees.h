// Fixed degrees of parallelism as meshes and constraints of the search for placements.
#pragma once

#include <vector>

#include "planner/placement/search_constraints.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// The meshes of the search for placements on all ranks of the constraints: the mesh of the marks;
/// or an axis for each fixed degree above 1, in the order dp, sp, tp, with one axis and then two
/// for the ranks that are left, between dp and sp. Empty when none has the fixed degrees.
///   machine  ranks of one machine
std::vector<MeshPtr> searched_meshes(const PlanConstraints& constraints, int machine);

/// The constraints that the marks and the fixed degrees are on one of these meshes: the canonical
/// placements of inputs, of which `dp` divides dim 0, `sp` another dim and `tp` none, and no other
/// axis what a fixed degree divides. An input that is too short for an axis is not divided by it.
///
///   throws  UserError (78) as constraints_of_marks, and when marks and degrees leave an input no
///           placement
SearchConstraints constraints_on(const Graph& graph, const MeshPtr& mesh,
                                 const PlanConstraints& constraints);

}  // namespace tessera
