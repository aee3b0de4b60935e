#include "search/searched_placements.h"

#include <fmt/format.h>

#include <utility>

#include "rewrite/rewrite.h"
#include "search/fixed_degrees.h"
#include "search/searched_devices.h"
#include "shard/resolved/resolve.h"

namespace tessera {
std::optional<SearchedPlacements> searched_placements(const PlanRequest& request,
                                                      const PlanConstraints& constraints, Plan plan,
                                                      PlacementSearchOptions options) {
  const MeshPtr mesh = plan.meshes.front().mesh;
  plan.marks = constraints.marks;  // no pass removes what they name
  CompileOptions compile;
  compile.rewrites = request.rewrites;
  SearchedPlacements made{placements(request.graph, plan, compile), {}};
  options.problem.constraints = constraints_on(made.placed.graph, mesh, constraints);
  options.problem.devices = devices_of(request, *mesh);
  std::optional<PlacementAnswer> answer = search_placements(
      made.placed.graph, made.placed.sharded.meshes.front().mesh, plan.cost, options);
  if (!answer) return {};
  made.answer = *std::move(answer);
  return made;
}

Shardings shardings_of(const PlanRequest& request, const PlanConstraints& constraints,
                       const SearchedPlacements& searched, const ShardedGraph& sharded) {
  Shardings shardings;
  shardings.sections.emplace_back(kTrainSection,
                                  resolve(searched.placed.graph, sharded, kTrainSection));
  if (!constraints.marks.empty())
    resolve_serial(request.graph,
                   {std::vector<int>(request.graph.ops().size(), 0),
                    ops_kept_by(request.graph, constraints.marks)},
                   searched.placed.sharded.meshes, kTrainSection, {},
                   shardings.sections.front().second);
  return shardings;
}

std::vector<Candidate> placement_neighbours(const PlanRequest& request,
                                            const PlanConstraints& constraints,
                                            const Candidate& candidate, int64_t count) {
  const SearchedProblem& problem = candidate.problem.value();
  Plan plan = candidate.plan;
  plan.shardings.reset();
  PlacementSearchOptions options;
  options.problem.hidden_share = problem.hidden_share;
  options.memory_limit = problem.limit;
  options.changes = problem.changes;
  options.neighbours = count;
  const std::optional<SearchedPlacements> searched =
      searched_placements(request, constraints, plan, options);
  std::vector<Candidate> list;
  if (!searched) return list;
  for (const PlacementNeighbour& each : searched->answer.neighbours) {
    Candidate changed = candidate;
    changed.name += fmt::format(", neighbour {}", list.size() + 1);
    changed.plan.name = changed.name;
    changed.plan.shardings = shardings_of(request, constraints, *searched, each.sharded);
    changed.problem->changes.push_back(each.change);
    list.push_back(std::move(changed));
  }
  return list;
}

}  // namespace tessera
