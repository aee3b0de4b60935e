#include "cluster/cluster/cluster.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text/count_text.h"

namespace tessera {
namespace {

constexpr int kMaxClusterDevices = 1 << 20;

void check_types(const std::vector<DeviceType>& types) {
  std::set<std::string> names;
  for (const DeviceType& type : types) {
    if (!names.insert(type.name).second)
      refuse_config("two device types are called '" + type.name + "'",
                    "machines name the type of their devices", "rename one of them");
    if (type.memory <= type.reserve)
      refuse_config("a device of the type '" + type.name + "' has " + to_text(type.memory) +
                        " of memory, of which libraries take " + to_text(type.reserve),
                    "nothing is left for a model", "correct 'memory' or 'reserve'");
  }
}

int type_index(const std::vector<DeviceType>& types, const MachineGroup& group) {
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == group.device) return static_cast<int>(i);
    names.push_back(types[i].name);
  }
  const std::string close = nearest(group.device, names);
  refuse_config(
      "machine '" + group.names.front() + "' has devices of the type '" + group.device + "'",
      "the cluster has no device type of this name",
      close.empty() ? "describe it under [device." + group.device + "]"
                    : "name the type '" + close + "', or describe it");
}

void check_machines(const std::vector<MachineGroup>& groups) {
  std::set<std::string> names;
  int64_t devices = 0;
  for (const MachineGroup& group : groups) {
    ensure(group.devices >= 1 && !group.names.empty(), "a group of machines has devices");
    devices += group.devices * std::ssize(group.names);
    for (const std::string& name : group.names)
      if (!names.insert(name).second)
        refuse_config("two machines are called '" + name + "'", "links and ranks name machines",
                      "give every machine a name of its own");
  }
  if (devices == 0)
    refuse_config("the cluster has no devices", "a plan is for the devices of a cluster",
                  "describe at least one machine with one device");
  if (devices > kMaxClusterDevices)
    refuse_config("the cluster has " + grouped(devices) + " devices",
                  "a description has at most " + grouped(kMaxClusterDevices),
                  "describe a part of it");
}

ClusterDescription checked(ClusterDescription description) {
  check_types(description.types);
  check_machines(description.machines);
  return description;
}

}  // namespace

std::string_view to_text(HardwareKind kind) {
  switch (kind) {
    case HardwareKind::kCpu: return "cpu";
    case HardwareKind::kGpu: return "gpu";
    case HardwareKind::kNpu: return "npu";
  }
  return "";
}

std::string_view to_text(LinkSharing sharing) {
  switch (sharing) {
    case LinkSharing::kSwitch: return "switch";
    case LinkSharing::kBus: return "bus";
    case LinkSharing::kMesh: return "mesh";
  }
  return "";
}

Cluster::Cluster(ClusterDescription description)
    : description_(checked(std::move(description))), links_(description_) {
  for (const MachineGroup& group : description_.machines) {
    const int type = type_index(description_.types, group);
    for (const std::string& name : group.names) {
      const double cores = group.cores > 0 ? group.cores : group.devices;
      Machine& machine = machines_.emplace_back(Machine{name, cores, {}});
      for (int i = 0; i < group.devices; ++i) {
        machine.devices.push_back(device_count());
        devices_.push_back({type, machine_count() - 1});
      }
    }
  }
}

const DeviceType& Cluster::type(DeviceId device) const {
  return description_.types[devices_.at(device).type];
}

std::string Cluster::name(DeviceId device) const {
  const Machine& machine = machines_[devices_.at(device).machine];
  return machine.name + "/" + std::to_string(device - machine.devices.front());
}

std::vector<DeviceGroup> Cluster::groups() const {
  std::vector<DeviceGroup> groups;
  for (DeviceId device = 0; device < device_count(); ++device) {
    const std::string& name = type(device).name;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const DeviceGroup& other) { return other.type == name; });
    if (group == groups.end()) group = groups.insert(group, {name, {}});
    group->devices.push_back(device);
  }
  return groups;
}

std::vector<DeviceMesh> Cluster::device_meshes() const {
  const auto are_alike = [](const MachineGroup& a, const MachineGroup& b) {
    return a.device == b.device && a.devices == b.devices && a.levels == b.levels &&
           a.direct == b.direct && a.network == b.network;
  };
  std::vector<DeviceMesh> meshes;
  std::vector<const MachineGroup*> first;  // by mesh
  int machine = 0;
  for (const MachineGroup& group : description_.machines) {
    const auto found = std::ranges::find_if(
        first, [&](const MachineGroup* other) { return are_alike(*other, group); });
    const auto index = found - first.begin();
    if (found == first.end()) {
      first.push_back(&group);
      meshes.push_back({group.device, {}, group.devices, {}});
    }
    for (size_t i = 0; i < group.names.size(); ++i, ++machine) {
      meshes[index].machines.push_back(machine);
      const std::span<const DeviceId> devices = devices_of(machine);
      meshes[index].devices.insert(meshes[index].devices.end(), devices.begin(), devices.end());
    }
  }
  return meshes;
}

LinkCost Cluster::link(DeviceId from, DeviceId to) const {
  if (from == to) return {Seconds(0), type(from).cost.copied_bytes_per_second};
  LinkCost link = links_.joint_link(from, to);
  link.bytes_per_second = std::numeric_limits<double>::infinity();
  for (ChannelId channel : links_.path(from, to))
    link.bytes_per_second = std::min(link.bytes_per_second, channels()[channel].bytes_per_second);
  return link;
}

}  // namespace tessera
