#include "planner/search/sources/stage_hardware.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/stages.h"

namespace tessera {
namespace {

int64_t count_of(const Cluster& cluster, const std::string& hardware) {
  int64_t count = 0;
  for (DeviceId device = 0; device < cluster.device_count(); ++device)
    count += can_have(cluster.type(device), hardware) ? 1 : 0;
  return count;
}

std::string devices_text(const Cluster& cluster) {
  std::vector<std::string> texts;
  for (const DeviceGroup& group : cluster.groups()) {
    const DeviceType& type = cluster.type(group.devices.front());
    texts.push_back(std::to_string(group.devices.size()) + " x " + type.name + " (" +
                    std::string(to_text(type.kind)) + ")");
  }
  return join(texts, ", ");
}

/// Ranks that a stage has at least.
int64_t fixed_ranks(const PlanConstraints& constraints) {
  int64_t ranks = 1;
  for (const auto& [name, degree] : constraints.degrees)
    if (name != kPipelineKey) ranks *= degree;
  return ranks;
}

void check(const Cluster& cluster, const Graph& graph, const PlanConstraints& constraints,
           const StageHardware& wanted) {
  const std::string item =
      std::string(kStageHardwareKey) + "=" + wanted.name + ":" + wanted.hardware;
  ops_named(graph, wanted.name, std::string(kStageHardwareKey));
  const int64_t devices = count_of(cluster, wanted.hardware);
  if (devices == 0)
    throw UserError("the cluster has no '" + wanted.hardware + "' for " + item,
                    "its devices are " + devices_text(cluster),
                    "name a type of these, or cpu, gpu or npu", ExitCode::kBadConfig);
  if (const int64_t ranks = fixed_ranks(constraints); ranks > devices)
    throw UserError("a stage of " + counted(ranks, "rank") + " does not fit " +
                        counted(devices, "device") + " of " + item,
                    "the fixed degrees are those of every stage, and the devices of the cluster "
                    "are " +
                        devices_text(cluster),
                    "fix smaller degrees, or another kind of device", ExitCode::kBadConfig);
}

Deployment deployment_of(const Cluster& cluster, std::vector<DeviceId> devices, int ranks) {
  devices.resize(ranks);
  return {&cluster, std::move(devices)};
}

}  // namespace

PlanConstraints with_hardware_of(const Cluster& cluster, const Graph& graph,
                                 PlanConstraints constraints) {
  if (constraints.hardware.empty()) return constraints;
  for (const StageHardware& wanted : constraints.hardware)
    check(cluster, graph, constraints, wanted);
  std::erase_if(constraints.hardware, [&](const StageHardware& wanted) {
    return count_of(cluster, wanted.hardware) == cluster.device_count();
  });
  std::vector<std::string> items = split_text(constraints.decisions, ',');
  const std::string key = std::string(kStageHardwareKey) + "=";
  std::erase_if(items,
                [&](const std::string& item) { return item.empty() || item.starts_with(key); });
  if (!constraints.hardware.empty()) items.push_back(key + to_text(constraints.hardware));
  constraints.decisions = join(items, ",");
  return constraints;
}

std::vector<Deployment> stage_deployments(const Cluster& cluster,
                                          const PlanConstraints& constraints) {
  std::vector<Deployment> list{identity_mapping(cluster, constraints.ranks)};
  const std::vector<DeviceGroup> groups = cluster.groups();
  if (constraints.hardware.empty() || groups.size() > kSearchPolicy.ordered_types) return list;
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::set<std::vector<DeviceId>> known{list.front().device_of_rank};
  do {
    std::vector<DeviceId> devices;
    for (const size_t group : order)
      devices.insert(devices.end(), groups[group].devices.begin(), groups[group].devices.end());
    Deployment deployment = deployment_of(cluster, std::move(devices), constraints.ranks);
    if (known.insert(deployment.device_of_rank).second) list.push_back(std::move(deployment));
  } while (std::ranges::next_permutation(order).found);
  return list;
}

std::vector<UnitRanks> unit_ranks(const Graph& graph, const LayerSequence& sequence,
                                  const Deployment& deployment,
                                  const PlanConstraints& constraints) {
  std::vector<UnitRanks> list;
  for (const StageHardware& wanted : constraints.hardware) {
    std::vector<bool> allows;
    for (Rank rank = 0; rank < std::ssize(deployment.device_of_rank); ++rank)
      allows.push_back(can_have(deployment.type(rank), wanted.hardware));
    const std::vector<bool> is_named =
        ops_named(graph, wanted.name, std::string(kStageHardwareKey));
    for (int unit = 0; unit < sequence.units(); ++unit) {
      const auto begin = is_named.begin() + sequence.begins[unit];
      const auto end = unit + 1 < sequence.units() ? is_named.begin() + sequence.begins[unit + 1]
                                                   : is_named.end();
      if (std::find(begin, end, true) != end) list.push_back({unit, allows});
    }
  }
  return list;
}

std::string common_type(const Deployment& deployment, const std::vector<Rank>& ranks) {
  const std::string& first = deployment.type(ranks.front()).name;
  return std::ranges::all_of(ranks, [&](Rank rank) { return deployment.type(rank).name == first; })
             ? first
             : "";
}

}  // namespace tessera
