#include "planner/search/internal/sources/searched_placements.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/rewrite/rewrite.h"
#include "planner/search/internal/sources/fixed_degrees.h"
#include "planner/search/internal/sources/searched_devices.h"
#include "sharding/explicit/explicit_shardings.h"

namespace tessera {
namespace {

PlacedGraph rewritten(const PlanRequest& request, const PlanConstraints& constraints, Plan plan) {
  plan.marks = constraints.marks;  // no pass removes what they name
  CompileOptions compile;
  compile.rewrites = request.rewrites;
  return placements(request.graph, plan, compile);
}

SearchProblemOptions options_on(const PlanRequest& request, const PlanConstraints& constraints,
                                const Graph& graph, const MeshPtr& mesh,
                                SearchProblemOptions options) {
  options.constraints = constraints_on(graph, mesh, constraints);
  options.devices = devices_of(request, *mesh);
  return options;
}

}  // namespace

SearchedGraph::SearchedGraph(const PlanRequest& request, const PlanConstraints& constraints,
                             Plan plan)
    : placed_(rewritten(request, constraints, std::move(plan))) {
  if (constraints.marks.empty() && constraints.degrees.empty())
    unconstrained_ = clustered_graph(placed_.graph, {});
}

std::shared_ptr<const ClusteredGraph> SearchedGraph::clustered(
    const SearchProblemOptions& options) const {
  if (unconstrained_ && options.constraints.empty()) return unconstrained_;
  return clustered_graph(placed_.graph, options);
}

SearchedMesh::SearchedMesh(const PlanRequest& request, const PlanConstraints& constraints,
                           Plan plan, std::shared_ptr<const SearchedGraph> graph,
                           SearchProblemOptions options)
    : request_(request),
      constraints_(constraints),
      plan_(std::move(plan)),
      graph_(std::move(graph)),
      options_(options_on(request, constraints, graph_->graph(), plan_.meshes.front().mesh,
                          std::move(options))),
      search_(graph_->clustered(options_), plan_.meshes.front().mesh, plan_.cost, options_) {}

std::optional<PlacementResult> SearchedMesh::result(PlacementSearchOptions options) const {
  const double overlap = options.problem.overlap;
  options.problem = options_;
  options.problem.overlap = overlap;
  return search_.result(options);
}

Shardings SearchedMesh::shardings_of(const ShardedGraph& sharded) const {
  Shardings shardings;
  shardings.sections.emplace_back(kTrainSection,
                                  to_shardings(graph_->graph(), sharded, kTrainSection));
  if (!constraints_.marks.empty())
    serial_to_shardings(request_.graph,
                        {std::vector<int>(request_.graph.ops().size(), 0),
                         ops_kept_by(request_.graph, constraints_.marks)},
                        plan_.meshes, kTrainSection, {}, shardings.sections.front().second);
  return shardings;
}

std::vector<Candidate> placement_neighbours(const PlanRequest& request,
                                            const PlanConstraints& constraints,
                                            const Candidate& candidate, int64_t count) {
  const SearchedProblem& problem = candidate.problem.value();
  Plan plan = candidate.plan;
  plan.shardings.reset();
  PlacementSearchOptions options;
  options.problem.overlap = problem.overlap;
  options.memory_limit = problem.limit;
  options.changes = problem.changes;
  options.neighbours = count;
  const SearchedMesh mesh(request, constraints, plan,
                          std::make_shared<const SearchedGraph>(request, constraints, plan));
  const std::optional<PlacementResult> result = mesh.result(options);
  std::vector<Candidate> list;
  if (!result) return list;
  for (const PlacementNeighbour& each : result->neighbours) {
    Candidate changed = candidate;
    changed.name += fmt::format(", neighbour {}", list.size() + 1);
    changed.plan.name = changed.name;
    changed.plan.shardings = mesh.shardings_of(each.sharded);
    changed.problem->changes.push_back(each.change);
    list.push_back(std::move(changed));
  }
  return list;
}

}  // namespace tessera
