// The search for placements: from a serial graph and a mesh to the sharding of every op, with a
// bound below every other choice of the same problem.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/solver/least_changes.h"
#include "cluster/cost/cost_model.h"
#include "ir/graph/graph.h"
#include "planner/placement/search_problem.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

struct PlacementSearchOptions {
  SearchProblemOptions problem = {};
  /// Of the values that the problem counts (SearchProblem) on the fullest rank.
  std::optional<Bytes> memory_limit = {};
  bool shares_layer_decisions = true;
  /// When layers share decisions: the result is improved with layers on their own, where these have
  /// at most n
  /// strategies of op clusters, canonical placements and copies; 0: it is not.
  int64_t separate_strategies = 0;
  int64_t work = 400;  // of the solver, in millions of entries of tables
  /// Made in the best choice that is found; their times and their memory are not looked at.
  std::vector<solver::Change> changes = {};
  /// n answers next to this one are wanted, too.
  int64_t neighbours = 0;
};

/// An answer in which one node of the problem has another strategy.
struct PlacementNeighbour {
  solver::Change change;
  ShardedGraph sharded;
};

/// What was searched, and how good the answer is. Times are of the problem: kernels and exchanges
/// follow each other, and each is priced alone.
struct PlacementResult {
  ShardedGraph sharded;
  Seconds time{0};
  Seconds bound{0};  // no choice of this problem takes less
  bool is_optimal = false;
  int nodes = 0, edges = 0;
  int64_t strategies = 0, dropped_strategies = 0;
  Bytes counted_memory{0};
  /// In ascending order of their times, each within the limit of memory; one of a node.
  std::vector<PlacementNeighbour> neighbours = {};

  double gap() const { return time > Seconds(0) ? 1 - bound.value() / time.value() : 0; }
};

/// The search for the placements of a graph on one mesh, under several limits and overlaps.
class MeshSearch {
 public:
  /// The costs outlive it, and so does the graph.
  ///   clustered    of the graph with the same options
  ///   options  overlap does not count
  MeshSearch(std::shared_ptr<const ClusteredGraph> clustered, MeshPtr mesh, const CostModel& cost,
             const SearchProblemOptions& options);

  /// search_placements() with these options, whose `problem` is that of this search except for the
  /// overlap.
  ///   threads  any number of callers
  std::optional<PlacementResult> result(const PlacementSearchOptions& options) const;

 private:
  std::shared_ptr<const MeshStrategies> strategies_;
};

/// The graph with its op clusters for MeshSearch: its repeated layers share decisions.
std::shared_ptr<const ClusteredGraph> clustered_graph(const Graph& graph,
                                                      const SearchProblemOptions& options);

/// Chooses the placements of a graph on one mesh.
///
///   graph    after the passes that rewrite it; the placements are for its ops
///   ensures  the same inputs give the same result; names do not matter; shares_layer_decisions
///            with separate_strategies gives none that takes longer than without
///   returns  nullopt when no choice keeps the limit of memory
///   throws   UserError (78) when no choice keeps the constraints of options.problem
///   threads  starts up to two
std::optional<PlacementResult> search_placements(const Graph& graph, const MeshPtr& mesh,
                                                 const CostModel& cost,
                                                 const PlacementSearchOptions& options = {});

}  // namespace tessera
