// The search for placements on the mesh of one plan, as the shardings of the plan.
#pragma once

#include <optional>
#include <vector>

#include "placement_search/placement_search.h"
#include "search/candidate.h"
#include "search/incumbents.h"

namespace tessera {

/// The graph on the mesh of a plan, and its best placements.
struct SearchedPlacements {
  PlacedGraph placed;
  PlacementAnswer answer;
};

/// Searches the placements of a plan on one mesh that has none.
///   options  get what follows from the mesh: the constraints and the devices
///   returns  nullopt when none are within the limit of memory
///   throws   UserError (78) for constraints that contradict each other
std::optional<SearchedPlacements> searched_placements(const PlanRequest& request,
                                                      const PlanConstraints& constraints, Plan plan,
                                                      PlacementSearchOptions options);

/// `sharded` as the shardings of the training step of the plan that was searched.
Shardings shardings_of(const PlanRequest& request, const PlanConstraints& constraints,
                       const SearchedPlacements& searched, const ShardedGraph& sharded);

/// Candidates that differ from one of the search in the strategy of one node of its problem, at
/// most `count`, in ascending order of their times in the problem. Each has the decisions of
/// `candidate`.
///
///   requires  a candidate with its `problem`, of PlacementSource or of this function
///   time      the problem is solved again
std::vector<Candidate> placement_neighbours(const PlanRequest& request,
                                            const PlanConstraints& constraints,
                                            const Candidate& candidate, int64_t count);

}  // namespace tessera
