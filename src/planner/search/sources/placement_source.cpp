#include "planner/search/sources/placement_source.h"

#include <algorithm>
#include <utility>

#include "base/threads/on_all_cores.h"
#include "compiler/plan/preset.h"
#include "planner/pipeline/device_runs.h"
#include "planner/placement/search_policy.h"
#include "planner/search/internal/sources/fixed_degrees.h"
#include "planner/search/internal/sources/part_weights.h"
#include "planner/search/internal/sources/searched_devices.h"
#include "planner/search/internal/sources/searched_placements.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

constexpr double kOverlaps[] = {0, 0.5, 1};

/// No placements need less on every rank: the variables, and of one micro-batch what the forward
/// keeps for the backward, divided evenly.
double min_memory(const Graph& graph, int ranks) {
  double variables = 0, kept = 0;
  for (const Variable& variable : graph.variables())
    variables += static_cast<double>(byte_size(graph.type(variable.value)).value());
  for (const Value& value : graph.values()) {
    if (value.producer.index < 0 || graph.op(value.producer).role != Role::kForward) continue;
    if (std::ranges::any_of(value.users,
                            [&](OpId user) { return graph.op(user).role == Role::kBackward; }))
      kept += static_cast<double>(byte_size(value.type).value());
  }
  return (variables + kSearchPolicy.kept_share * kept) / ranks;
}

/// Devices of the first machine.
int machine_of(const Cluster& cluster, int ranks) {
  int machine = 1;
  const int devices = std::min(ranks, cluster.device_count());
  while (machine < devices && cluster.machine(machine) == cluster.machine(0)) ++machine;
  return machine;
}

/// What the largest device has for values.
double largest_memory(const Cluster& cluster, int ranks) {
  const Deployment deployment = identity_mapping(cluster, ranks);
  Bytes largest{0};
  for (Rank rank = 0; rank < ranks; ++rank)
    largest = std::max(largest, deployment.type(rank).memory - deployment.type(rank).reserve);
  return static_cast<double>(largest.value());
}

std::string name_of(const MeshPtr& mesh, double overlap, int round) {
  std::string name = "search " + to_text(*mesh);
  std::ranges::replace(name, ' ', ',');
  name[6] = ' ';
  if (overlap > 0) name += overlap < 1 ? ", overlap=0.5" : ", overlap=1";
  if (round > 0) name += ", less memory";
  if (round > 1) name += " " + std::to_string(round);
  return name;
}

/// Of a candidate on this mesh, without placements.
Plan plan_on(const PlanRequest& request, const PlanConstraints& constraints, const MeshPtr& mesh) {
  Plan plan = decisions_of(constraints);
  plan.schedule = Plan().schedule;  // it has one micro-batch
  plan.meshes = one_mesh(mesh);
  plan.cost = cost_of(identity_mapping(request.cluster, mesh->size()), std::vector{mesh});
  return plan;
}

/// Has an earlier one the same placements on the same mesh?
bool has_placements_of(const std::vector<Candidate>& list, const Candidate& candidate) {
  return std::ranges::any_of(list, [&](const Candidate& other) {
    return *other.plan.meshes.front().mesh == *candidate.plan.meshes.front().mesh &&
           other.plan.shardings == candidate.plan.shardings;
  });
}

}  // namespace

std::vector<Candidate> PlacementSource::operator()(const PlanRequest& request,
                                                   const PlanConstraints& constraints,
                                                   const PlanSearchResult& known) {
  const int round = round_++;
  std::vector<Named> wanted;
  if (round == 0) {
    // Its meshes have all ranks, and say nothing of devices.
    if (!constraints.hardware.empty() || constraints.has_presets_alone) return {};
    if (constraints.ranks < 2 || decisions_of(constraints).micro_batches > 1) return {};
    const Cluster& cluster = request.cluster;
    if (min_memory(request.graph, constraints.ranks) > largest_memory(cluster, constraints.ranks))
      return {};
    const int machine = machine_of(cluster, constraints.ranks);
    std::vector<MeshPtr> meshes = searched_meshes(constraints, machine);
    if (!constraints.mesh) meshes = with_weights(meshes, request.cluster);
    for (const MeshPtr& mesh : meshes)
      for (double overlap : kOverlaps)
        wanted.emplace_back(name_of(mesh, overlap, 0),
                            Tried{mesh, overlap, memory_of(request, *mesh)});
  }
  const std::map<std::string, Tried> last = std::exchange(tried_, {});
  for (const EvaluatedCandidate& candidate : known.candidates) {
    const auto found = last.find(candidate.candidate.name);
    if (found == last.end() || candidate.fits()) continue;
    Tried again = found->second;
    again.limit = candidate.candidate.problem->counted_memory - candidate.fullest.missing();
    wanted.emplace_back(name_of(again.mesh, again.overlap, round), again);
  }
  return search(request, constraints, wanted);
}

std::vector<Candidate> PlacementSource::search(const PlanRequest& request,
                                               const PlanConstraints& constraints,
                                               const std::vector<Named>& wanted) {
  add_meshes(request, constraints, wanted);
  std::vector<std::optional<Candidate>> found(wanted.size());
  on_all_cores(std::ssize(wanted), [&](int64_t i) {
    const auto& [name, tried] = wanted[i];
    if (tried.limit > Bytes(0))
      found[i] = search(plan_on(request, constraints, tried.mesh), name, tried);
  });
  std::vector<Candidate> list;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i] || has_placements_of(list, *found[i])) continue;
    tried_.insert(wanted[i]);
    list.push_back(*std::move(found[i]));
  }
  return list;
}

void PlacementSource::add_meshes(const PlanRequest& request, const PlanConstraints& constraints,
                                 const std::vector<Named>& wanted) {
  if (wanted.empty()) {  // nothing is searched again
    meshes_.clear();
    graph_.reset();
  }
  std::vector<MeshPtr> missing;
  for (const auto& [name, tried] : wanted)
    if (tried.limit > Bytes(0) && meshes_.try_emplace(to_text(*tried.mesh)).second)
      missing.push_back(tried.mesh);
  if (missing.empty()) return;
  if (!graph_)
    graph_ = std::make_shared<const SearchedGraph>(request, constraints,
                                                   plan_on(request, constraints, missing.front()));
  std::vector<std::shared_ptr<const SearchedMesh>> made(missing.size());
  on_all_cores(std::ssize(missing), [&](int64_t i) {
    made[i] = std::make_shared<const SearchedMesh>(
        request, constraints, plan_on(request, constraints, missing[i]), graph_);
  });
  for (size_t i = 0; i < missing.size(); ++i) meshes_[to_text(*missing[i])] = std::move(made[i]);
}

std::optional<Candidate> PlacementSource::search(const Plan& plan, const std::string& name,
                                                 const Tried& tried) const {
  const SearchedMesh& mesh = *meshes_.at(to_text(*tried.mesh));
  PlacementSearchOptions options;
  options.problem.overlap = tried.overlap;
  options.memory_limit = tried.limit;
  options.work = work_;
  const std::optional<PlacementResult> result = mesh.result(options);
  if (!result) return {};
  Candidate candidate{Candidate::Source::kSearch, name, plan};
  candidate.plan.name = name;
  candidate.plan.shardings = mesh.shardings_of(result->sharded);
  candidate.problem =
      SearchedProblem{result->time,           result->bound,      result->nodes,
                      result->edges,          result->strategies, result->dropped_strategies,
                      result->counted_memory, tried.overlap,      tried.limit};
  return candidate;
}

std::vector<CandidateSource> placement_searches() {
  const auto source = std::make_shared<PlacementSource>();
  const CandidateSource round{
      "placements", "of each op on one mesh, then within less memory where they did not fit",
      [source](const auto&... known) { return (*source)(known...); }};
  return std::vector<CandidateSource>(kSearchPolicy.rounds_of_placements, round);
}

}  // namespace tessera
