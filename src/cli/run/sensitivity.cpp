#include "cli/run/sensitivity.h"

#include <algorithm>
#include <tuple>

#include "engine/graphs.h"
#include "search/answers/choice_prices.h"

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

/// Plans for a graph on a cluster again.
Sensitivity planned_again(const std::string& change, const PlanRequest& request,
                          const PlanConstraints& constraints, const Plan& kept,
                          const std::string& name) {
  Sensitivity result{change};
  PlanningOptions options{.constraints = constraints};
  options.compared = {{Candidate::Source::kCompared, kKept, kept}};
  options.max_presets = 0;
  const PlanningAnswer answer = find_plan(request, options);
  const EvaluatedCandidate* compared = answer.find(Candidate::Source::kCompared);
  if (compared && compared->fits()) result.kept = compared->step();
  if (!answer.best) return result;
  const EvaluatedCandidate& best = answer.candidates[*answer.best];
  result.best = best.step();
  // Of equal steps the kept plan counts.
  const bool is_kept = result.kept && *result.kept <= best.step();
  if (!is_kept) result.plan = best.candidate.name;
  result.placement =
      choice_text(placements(request.graph, is_kept ? kept : best.candidate.plan), name);
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
        planned_again(change, {*planned.graph, cluster}, planned.constraints, kept, name));
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
        planned_again(change, {graph, *planned.cluster}, planned.constraints, kept, name));
  }
  return list;
}

}  // namespace tessera
