#include "cluster/cluster/machine_order.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace tessera {
namespace {

const DeviceType* type_of(const ClusterDescription& description, const std::string& name) {
  const auto found = std::ranges::find(description.types, name, &DeviceType::name);
  return found == description.types.end() ? nullptr : &*found;
}

/// Of what differs between groups; larger comes first.
std::vector<double> rank_of(const ClusterDescription& description, const MachineGroup& group) {
  std::vector<double> key;
  if (const DeviceType* type = type_of(description, group.device))
    key = {type->cost.flops_per_second, static_cast<double>(type->memory.value()),
           type->cost.bytes_per_second};
  key.push_back(group.devices);
  key.push_back(group.cores);
  for (const InnerLevel& inner : group.levels) {
    key.push_back(inner.size);
    key.push_back(inner.level.bytes_per_second());
    key.push_back(-inner.level.link.latency.value());
  }
  if (group.network) key.push_back(group.network->ports * group.network->bytes_per_second);
  return key;
}

}  // namespace

ClusterDescription in_canonical_order(ClusterDescription description) {
  const bool has_one_switch =
      std::ranges::all_of(description.network, [](const NetworkLevel& level) {
        return std::ranges::all_of(level.switch_of_child, [](int at) { return at == 0; });
      });
  if (!has_one_switch || !description.direct.empty()) return description;
  std::ranges::stable_sort(description.machines, std::greater(),
                           [&](const MachineGroup& group) { return rank_of(description, group); });
  return description;
}

}  // namespace tessera
