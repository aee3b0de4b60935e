#include "planner/placement/placement_search.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/solver/solve.h"
#include "planner/placement/search_policy.h"

namespace tessera {

namespace {

void check_constraints(const SearchProblem& search) {
  const std::string ends = search.contradiction();
  if (ends.empty()) return;
  throw UserError("the constraints of the search contradict each other: no placements of " + ends +
                      " fit together",
                  "one of them reads what the other makes, and no exchange leads from the "
                  "placement that is asked for there to the one that is asked for here: a whole "
                  "value does not become a partial sum",
                  "remove the mark of one of them", ExitCode::kBadConfig);
}

struct Solved {
  solver::Answer result;
  std::optional<solver::Wide> bound;  // of the whole limit
  Bytes peak{0};
};

/// The problem does not count what readers take in other placements: where that is too much, it is
/// solved again with as much less.
///   start  a known assignment; empty: none
std::optional<Solved> solve_within(SearchProblem& search, const PlacementSearchOptions& options,
                                   const solver::Assignment& start = {}) {
  solver::SolveOptions how;
  if (!start.empty()) how.start = start;
  how.work = options.work;
  how.time_limit = Seconds(600);
  std::optional<Bytes> limit = options.memory_limit;
  Solved solved;
  for (int round = 0; round < kSearchPolicy.rounds_within_memory; ++round) {
    if (limit && *limit <= Bytes(0)) return std::nullopt;
    if (limit) search.problem().set_usage_limit(limit->value());
    solved.result = solver::solve(search.problem(), how);
    if (round == 0) solved.bound = solved.result.bound;
    if (!solved.result.assignment) return std::nullopt;
    solved.peak = search.peak(*solved.result.assignment);
    if (!limit || solved.peak <= *options.memory_limit) return solved;
    *limit += *options.memory_limit - solved.peak;
  }
  return std::nullopt;
}

void make_changes(SearchProblem& search, const std::vector<solver::Change>& changes,
                  Solved& solved) {
  if (changes.empty()) return;
  solver::Assignment& assignment = *solved.result.assignment;
  for (const solver::Change& change : changes) assignment.at(change.node) = change.strategy;
  solved.result.cost = solver::evaluate(search.problem(), assignment).cost;
  solved.peak = search.peak(assignment);
}

bool are_equal(const ShardedGraph& a, const ShardedGraph& b) {
  return a.ops == b.ops && a.values == b.values && a.copies == b.copies;
}

/// A change may leave the placements as they are: where readers find a value follows from them.
std::vector<PlacementNeighbour> neighbours_of(SearchProblem& search,
                                              const solver::Assignment& assignment,
                                              const PlacementSearchOptions& options) {
  std::vector<PlacementNeighbour> list;
  if (options.neighbours == 0) return list;
  const ShardedGraph present = search.placements(assignment);
  for (const solver::Change& change : solver::least_changes(search.problem(), assignment)) {
    if (std::ssize(list) == options.neighbours) break;
    solver::Assignment changed = assignment;
    changed[change.node] = change.strategy;
    if (options.memory_limit && search.peak(changed) > *options.memory_limit) continue;
    ShardedGraph sharded = search.placements(changed);
    const auto is_made = [&](const PlacementNeighbour& each) {
      return are_equal(each.sharded, sharded);
    };
    if (are_equal(sharded, present) || std::ranges::any_of(list, is_made)) continue;
    list.push_back({change, std::move(sharded)});
  }
  return list;
}

/// Makes the changes that the options ask for, and finds the neighbours.
PlacementResult result_of(SearchProblem& search, Solved solved,
                          const PlacementSearchOptions& options) {
  make_changes(search, options.changes, solved);
  PlacementResult result;
  const solver::Answer& found = solved.result;
  result.sharded = search.placements(*found.assignment);
  result.time = search.unit().seconds(*found.cost);
  result.bound = solved.bound ? search.unit().seconds(*solved.bound) : Seconds(0);
  result.is_optimal = solved.bound && *solved.bound == *found.cost;
  result.nodes = search.problem().nodes();
  result.edges = search.problem().edges();
  result.strategies = search.strategies();
  result.dropped_strategies = search.dropped_strategies();
  result.counted_memory = solved.peak;
  result.neighbours = neighbours_of(search, *found.assignment, options);
  return result;
}

/// Has the problem with layers on their own few enough strategies?
bool may_untie(const Graph& graph, const SharedDecisions& shared_decisions,
               const SearchProblem& shared, const PlacementSearchOptions& options) {
  int64_t ops = 0, firsts = 0;
  for (int i = 0; i < std::ssize(shared_decisions.of_op); ++i) {
    ++ops;
    firsts += shared_decisions.is_first(OpId{i});
  }
  return firsts < ops && shared.strategies() * ops / firsts <= options.separate_strategies &&
         !graph.ops().empty();
}

/// Costs are rounded, by node and edge: what is not better than that is no better answer.
bool is_better(const SearchProblem& search, const Solved& found, const SearchProblem& other,
               const Solved& known) {
  const solver::Wide rounded = search.problem().nodes() + search.problem().edges();
  return search.unit().seconds(*found.result.cost + rounded) <
         other.unit().seconds(*known.result.cost);
}

}  // namespace

MeshSearch::MeshSearch(std::shared_ptr<const ClusteredGraph> clustered, MeshPtr mesh,
                       const CostModel& cost, const SearchProblemOptions& options)
    : strategies_(std::make_shared<const MeshStrategies>(std::move(clustered), std::move(mesh),
                                                         cost, options)) {}

std::optional<PlacementResult> MeshSearch::result(const PlacementSearchOptions& options) const {
  const Graph& graph = strategies_->clustered().graph;
  SearchProblem search(strategies_, options.problem.overlap);
  check_constraints(search);
  std::optional<Solved> solved = solve_within(search, options);
  if (!solved) return std::nullopt;
  if (may_untie(graph, strategies_->clustered().shared_decisions, search, options)) {
    SearchProblem separate(graph, strategies_->mesh(), strategies_->cost(),
                           no_shared_decisions(graph), options.problem);
    const std::optional<Solved> improved =
        solve_within(separate, options, separate.separate(search, *solved->result.assignment));
    if (improved && is_better(separate, *improved, search, *solved))
      return result_of(separate, *improved, options);
  }
  return result_of(search, *std::move(solved), options);
}

std::shared_ptr<const ClusteredGraph> clustered_graph(const Graph& graph,
                                                      const SearchProblemOptions& options) {
  return std::make_shared<const ClusteredGraph>(
      graph, shared_decisions_of(graph, options.constraints), options);
}

std::optional<PlacementResult> search_placements(const Graph& graph, const MeshPtr& mesh,
                                                 const CostModel& cost,
                                                 const PlacementSearchOptions& options) {
  std::shared_ptr<const ClusteredGraph> clustered =
      options.shares_layer_decisions ? clustered_graph(graph, options.problem)
                                     : std::make_shared<const ClusteredGraph>(
                                           graph, no_shared_decisions(graph), options.problem);
  return MeshSearch(std::move(clustered), mesh, cost, options.problem).result(options);
}

}  // namespace tessera
