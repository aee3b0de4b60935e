#include "placement_search/placement_search.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "solver/solve.h"

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

/// Searches with less memory that are tried when readers take more than the limit leaves.
constexpr int kRounds = 4;

struct Solved {
  solver::Answer answer;
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
  for (int round = 0; round < kRounds; ++round) {
    if (limit && *limit <= Bytes(0)) return std::nullopt;
    if (limit) search.problem().set_usage_limit(limit->value());
    solved.answer = solver::solve(search.problem(), how);
    if (round == 0) solved.bound = solved.answer.bound;
    if (!solved.answer.assignment) return std::nullopt;
    solved.peak = search.peak(*solved.answer.assignment);
    if (!limit || solved.peak <= *options.memory_limit) return solved;
    *limit += *options.memory_limit - solved.peak;
  }
  return std::nullopt;
}

void make_changes(SearchProblem& search, const std::vector<solver::Change>& changes,
                  Solved& solved) {
  if (changes.empty()) return;
  solver::Assignment& assignment = *solved.answer.assignment;
  for (const solver::Change& change : changes) assignment.at(change.node) = change.strategy;
  solved.answer.cost = solver::evaluate(search.problem(), assignment).cost;
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
PlacementAnswer answer_of(SearchProblem& search, Solved solved,
                          const PlacementSearchOptions& options) {
  make_changes(search, options.changes, solved);
  PlacementAnswer answer;
  const solver::Answer& found = solved.answer;
  answer.sharded = search.placements(*found.assignment);
  answer.time = search.unit().seconds(*found.cost);
  answer.bound = solved.bound ? search.unit().seconds(*solved.bound) : Seconds(0);
  answer.is_optimal = solved.bound && *solved.bound == *found.cost;
  answer.nodes = search.problem().nodes();
  answer.edges = search.problem().edges();
  answer.strategies = search.strategies();
  answer.dropped_strategies = search.dropped_strategies();
  answer.counted_memory = solved.peak;
  answer.neighbours = neighbours_of(search, *found.assignment, options);
  return answer;
}

/// Has the problem with layers on their own few enough strategies?
bool may_untie(const Graph& graph, const Ties& ties, const SearchProblem& tied,
               const PlacementSearchOptions& options) {
  int64_t ops = 0, firsts = 0;
  for (int i = 0; i < std::ssize(ties.of_op); ++i) {
    ++ops;
    firsts += ties.is_first(OpId{i});
  }
  return firsts < ops && tied.strategies() * ops / firsts <= options.untied_strategies &&
         !graph.ops().empty();
}

/// Costs are rounded, by node and edge: what is not better than that is no better answer.
bool is_better(const SearchProblem& search, const Solved& found, const SearchProblem& other,
               const Solved& known) {
  const solver::Wide rounded = search.problem().nodes() + search.problem().edges();
  return search.unit().seconds(*found.answer.cost + rounded) <
         other.unit().seconds(*known.answer.cost);
}

}  // namespace

MeshSearch::MeshSearch(std::shared_ptr<const ConedGraph> coned, MeshPtr mesh, const CostModel& cost,
                       const SearchProblemOptions& options)
    : strategies_(std::make_shared<const MeshStrategies>(std::move(coned), std::move(mesh), cost,
                                                         options)) {}

std::optional<PlacementAnswer> MeshSearch::answer(const PlacementSearchOptions& options) const {
  const Graph& graph = strategies_->coned().graph;
  SearchProblem search(strategies_, options.problem.hidden_share);
  check_constraints(search);
  std::optional<Solved> solved = solve_within(search, options);
  if (!solved) return std::nullopt;
  if (may_untie(graph, strategies_->coned().ties, search, options)) {
    SearchProblem untied(graph, strategies_->mesh(), strategies_->cost(), no_ties(graph),
                         options.problem);
    const std::optional<Solved> improved =
        solve_within(untied, options, untied.untied(search, *solved->answer.assignment));
    if (improved && is_better(untied, *improved, search, *solved))
      return answer_of(untied, *improved, options);
  }
  return answer_of(search, *std::move(solved), options);
}

std::shared_ptr<const ConedGraph> coned_graph(const Graph& graph,
                                              const SearchProblemOptions& options) {
  return std::make_shared<const ConedGraph>(graph, ties_of_like_layers(graph, options.constraints),
                                            options);
}

std::optional<PlacementAnswer> search_placements(const Graph& graph, const MeshPtr& mesh,
                                                 const CostModel& cost,
                                                 const PlacementSearchOptions& options) {
  std::shared_ptr<const ConedGraph> coned =
      options.ties_layers
          ? coned_graph(graph, options.problem)
          : std::make_shared<const ConedGraph>(graph, no_ties(graph), options.problem);
  return MeshSearch(std::move(coned), mesh, cost, options.problem).answer(options);
}

}  // namespace tessera
