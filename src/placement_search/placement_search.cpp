#include "placement_search/placement_search.h"

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

}  // namespace

std::optional<PlacementAnswer> search_placements(const Graph& graph, const MeshPtr& mesh,
                                                 const CostModel& cost,
                                                 const PlacementSearchOptions& options) {
  SearchProblem search(graph, mesh, cost,
                       options.ties_layers ? ties_of_like_layers(graph, options.problem.constraints)
                                           : no_ties(graph),
                       options.problem);
  check_constraints(search);
  if (options.memory_limit) search.problem().set_usage_limit(options.memory_limit->value());
  solver::SolveOptions how;
  how.work = options.work;
  how.time_limit = Seconds(600);
  const solver::Answer found = solver::solve(search.problem(), how);
  if (!found.assignment) return std::nullopt;
  const auto seconds = [](solver::Wide picoseconds) {
    return Seconds(1e-12 * solver::to_double(picoseconds));
  };
  PlacementAnswer answer;
  answer.sharded = search.placements(*found.assignment);
  answer.time = seconds(*found.cost);
  answer.bound = found.bound ? seconds(*found.bound) : Seconds(0);
  answer.is_optimal = found.proof == solver::Proof::kOptimal;
  answer.nodes = search.problem().nodes();
  answer.edges = search.problem().edges();
  answer.strategies = search.strategies();
  answer.dropped_strategies = search.dropped_strategies();
  answer.counted_memory =
      Bytes(static_cast<int64_t>(solver::evaluate(search.problem(), *found.assignment).peak));
  return answer;
}

}  // namespace tessera
