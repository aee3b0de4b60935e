#include "tools/cli/internal/run/sensitivity.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/search/answers/choice_prices.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

constexpr const char* kKept = "the plan";

void scale_bandwidth(ClusterDescription& cluster, double factor) {
  const auto scale = [&](LinkCost& link) { link.bytes_per_second *= factor; };
  for (MachineGroup& group : cluster.machines) {
    for (InnerLevel& level : group.levels) scale(level.level.link);
    for (DirectLink& link : group.direct) scale(link.link);
  }
  for (NetworkLevel& level : cluster.network) scale(level.level.link);
  for (DirectLink& link : cluster.direct) scale(link.link);
}

void scale_memory(ClusterDescription& cluster, double factor) {
  for (DeviceType& type : cluster.types)
    type.memory = Bytes(static_cast<int64_t>(factor * static_cast<double>(type.memory.value())));
}

/// Is there memory beside that of the libraries?
bool leaves_memory(const ClusterDescription& cluster) {
  return std::ranges::all_of(cluster.types,
                             [](const DeviceType& type) { return type.memory > type.reserve; });
}

/// The cluster whose last machine has one device more; nullopt where its devices are in groups.
std::optional<ClusterDescription> with_one_more(ClusterDescription description) {
  MachineGroup& group = description.machines.back();
  if (std::ranges::any_of(group.levels, [](const InnerLevel& level) { return level.size > 0; }))
    return std::nullopt;
  MachineGroup last = group;
  last.names = {group.names.back()};
  ++last.devices;
  group.names.pop_back();
  if (group.names.empty()) description.machines.pop_back();
  description.machines.push_back(std::move(last));
  return description;
}

/// Plans for a graph on a cluster again.
///   kept         nullptr: it does not run there
///   name         of an op or a value; "": none
///   max_presets  of the grid
Sensitivity planned_again(const std::string& change, const PlanRequest& request,
                          const PlanConstraints& constraints, const Plan* kept,
                          const std::string& name, int64_t max_presets = 0) {
  Sensitivity result{change};
  PlanSearchOptions options{.constraints = constraints};
  if (kept) options.compared = {{Candidate::Source::kCompared, kKept, *kept}};
  options.max_presets = max_presets;
  const PlanSearchResult found = find_plan(request, options);
  const EvaluatedCandidate* compared = found.find(Candidate::Source::kCompared);
  if (compared && compared->fits()) result.kept = compared->step();
  if (!found.best) return result;
  const EvaluatedCandidate& best = found.candidates[*found.best];
  result.best = best.step();
  result.memory = best.fullest.memory.all();
  // Of equal steps the kept plan counts.
  const bool is_kept = result.kept && *result.kept <= best.step();
  if (!is_kept) result.plan = best.candidate.name;
  if (!name.empty())
    result.placement =
        choice_text(placements(request.graph, is_kept ? *kept : best.candidate.plan), name);
  return result;
}

}  // namespace

std::vector<Sensitivity> sensitivities(const Planned& planned, const Plan& kept,
                                       const std::string& name) {
  std::vector<Sensitivity> list;
  const auto on = [&](const std::string& change, const auto& scale, double factor) {
    ClusterDescription description = planned.cluster->description();
    scale(description, factor);
    if (!leaves_memory(description)) {
      list.push_back({change});
      return;
    }
    const Cluster cluster(std::move(description));
    list.push_back(
        planned_again(change, {*planned.graph, cluster}, planned.constraints, &kept, name));
  };
  on("half the bandwidth", scale_bandwidth, 0.5);
  on("twice the bandwidth", scale_bandwidth, 2);
  on("half the memory", scale_memory, 0.5);
  on("twice the memory", scale_memory, 2);
  for (const auto& [change, numerator, denominator] :
       {std::tuple("half the batch", 1, 2), std::tuple("twice the batch", 2, 1)}) {
    RunConfig config = planned.config;
    config.train.batch = config.train.batch * numerator / denominator;
    if (config.train.batch < 1) continue;
    const Graph graph = training_graph(config);
    list.push_back(
        planned_again(change, {graph, *planned.cluster}, planned.constraints, &kept, name));
  }
  return list;
}

std::vector<Sensitivity> device_sensitivities(const Planned& planned) {
  const EvaluatedCandidate& best = *planned.best();
  std::vector<Sensitivity> list;
  const auto on = [&](const std::string& change, const Cluster& cluster, int more) {
    PlanConstraints constraints = planned.constraints;
    constraints.ranks = best.ranks() + more;
    constraints.may_use_fewer = false;
    list.push_back(planned_again(change, {*planned.graph, cluster}, constraints,
                                 more == 0 ? &best.candidate.plan : nullptr, ""));
  };
  if (!planned.constraints.mesh) {
    if (best.ranks() > 1) on("one device less", *planned.cluster, -1);
    if (best.ranks() < planned.cluster->device_count())
      on("one device more", *planned.cluster, 1);
    else if (std::optional<ClusterDescription> more = with_one_more(planned.cluster->description()))
      on("one device more", Cluster(*std::move(more)), 1);
  }
  for (const auto& [change, factor] :
       {std::pair("half the bandwidth", 0.5), std::pair("twice the bandwidth", 2.0)}) {
    ClusterDescription description = planned.cluster->description();
    scale_bandwidth(description, factor);
    on(change, Cluster(std::move(description)), 0);
  }
  return list;
}

std::optional<Sensitivity> precision_sensitivity(const Planned& planned) {
  RunConfig config = planned.config;
  DType& dtype = config.train.precision.dtype;
  if (dtype != DType::kF32) return std::nullopt;
  dtype = DType::kBF16;
  const Graph graph = training_graph(config);
  const Plan& kept = planned.best()->candidate.plan;
  return planned_again("train.precision = " + std::string(to_text(dtype)),
                       {graph, *planned.cluster}, planned.constraints,
                       kept.shardings ? nullptr : &kept, "", PlanSearchOptions().max_presets);
}

}  // namespace tessera
