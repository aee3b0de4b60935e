// The search for placements on the mesh of one plan, as the shardings of the plan.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/placement/placement_search.h"
#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// The graph of a request after the passes that rewrite it, for searches on several meshes.
class SearchedGraph {
 public:
  ///   plan    of which only the passes over the graph count, on any mesh of the constraints
  ///   throws  UserError (78) as compile
  SearchedGraph(const PlanRequest& request, const PlanConstraints& constraints, Plan plan);
  SearchedGraph(const SearchedGraph&) = delete;  // the op clusters refer to the graph
  SearchedGraph& operator=(const SearchedGraph&) = delete;

  const Graph& graph() const { return placed_.graph; }
  /// The op clusters of the graph under the constraints of `options`.
  std::shared_ptr<const ClusteredGraph> clustered(const SearchProblemOptions& options) const;

 private:
  const PlacedGraph placed_;
  std::shared_ptr<const ClusteredGraph> unconstrained_;  // nullptr where every mesh has constraints
};

/// The search for placements on the mesh of a plan that has none.
class SearchedMesh {
 public:
  /// The request and the constraints outlive it.
  ///   graph    of them and of a plan with the passes of this one
  ///   options  get what follows from the mesh: the constraints and the devices
  ///   throws   UserError (78) for constraints that contradict each other
  SearchedMesh(const PlanRequest& request, const PlanConstraints& constraints, Plan plan,
               std::shared_ptr<const SearchedGraph> graph, SearchProblemOptions options = {});
  SearchedMesh(const SearchedMesh&) = delete;  // the search refers to the prices of the plan
  SearchedMesh& operator=(const SearchedMesh&) = delete;

  ///   options  of which the problem counts by its overlap only
  ///   returns  nullopt when no placements are within the limit of memory
  ///   throws   UserError (78) for constraints that contradict each other
  ///   threads  any number of callers
  std::optional<PlacementResult> result(PlacementSearchOptions options) const;
  /// `sharded`, which result() found, as the shardings of the training step of the plan.
  Shardings shardings_of(const ShardedGraph& sharded) const;

 private:
  const PlanRequest& request_;
  const PlanConstraints& constraints_;
  const Plan plan_;
  const std::shared_ptr<const SearchedGraph> graph_;
  const SearchProblemOptions options_;
  const MeshSearch search_;
};

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
