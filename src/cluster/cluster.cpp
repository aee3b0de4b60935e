#include "cluster/cluster.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "base/count_text.h"
#include "base/error.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

constexpr int kMostDevices = 1 << 20;

void check_level(const LinkLevel& level) {
  if (level.bytes_per_second() > 0) return;
  refuse("the links '" + level.name + "' have no bandwidth",
         "every message over them waits forever", "give them a bandwidth above 0");
}

void check_types(const std::vector<DeviceType>& types) {
  std::set<std::string> names;
  for (const DeviceType& type : types) {
    if (!names.insert(type.name).second)
      refuse("two device types are called '" + type.name + "'",
             "machines name the type of their devices", "rename one of them");
    if (type.memory <= type.reserve)
      refuse("a device of the type '" + type.name + "' has " + to_text(type.memory) +
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
  refuse("the machine '" + group.names.front() + "' has devices of the type '" + group.device + "'",
         "the cluster has no device type of this name",
         close.empty() ? "describe it under [device." + group.device + "]"
                       : "name the type '" + close + "', or describe it");
}

/// The largest link of the same name that a bus, a switch or a mesh has.
bool is_shared_by_all(const LinkLevel& level) {
  return level.sharing == LinkSharing::kBus;
}

}  // namespace

std::string_view to_text(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kGpu: return "gpu";
    case DeviceKind::kNpu: return "npu";
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

Cluster::Cluster(ClusterDescription description) : description_(std::move(description)) {
  check_types(description_.types);
  add_machines();
  set_depths();
  add_channels();
  add_direct_links();
}

// ---- the tree ----

void Cluster::add_machines() {
  std::vector<int> nodes;
  std::set<std::string> names;
  for (const MachineGroup& group : description_.machines) {
    if (group.names.empty() || group.devices < 1) continue;
    const int type = type_index(description_.types, group);
    for (const std::string& name : group.names) {
      if (!names.insert(name).second)
        refuse("two machines are called '" + name + "'", "links and ranks name machines",
               "give every machine a name of its own");
      if (device_count() + group.devices > kMostDevices)
        refuse("the cluster has more than " + grouped(kMostDevices) + " devices",
               "this is the limit of a description", "describe a part of it");
      nodes.push_back(add_machine(group, type, name));
    }
  }
  if (devices_.empty())
    refuse("the cluster has no devices", "a plan is for the devices of a cluster",
           "describe at least one machine with one device");
  add_network(std::move(nodes));
}

int Cluster::add_machine(const MachineGroup& group, int type, const std::string& name) {
  const int machine = machine_count(), first = device_count();
  machine_names_.push_back(name);
  std::vector<DeviceId>& list = of_machine_.emplace_back(group.devices);
  std::iota(list.begin(), list.end(), first);
  devices_.resize(devices_.size() + group.devices, {type, machine, -1, 0});
  return add_inner_groups(group, name);
}

/// Groups of the devices of the last machine, up to the one that is the machine.
int Cluster::add_inner_groups(const MachineGroup& group, const std::string& machine) {
  const std::vector<DeviceId>& devices = of_machine_.back();
  // The nodes of a level: devices first, then groups.
  std::vector<int> nodes;
  std::vector<std::string> names;
  for (DeviceId device : devices) names.push_back(name(device));
  std::vector<InnerLevel> levels = group.levels;
  if (levels.empty()) {
    if (group.devices > 1)
      refuse("machine '" + machine + "' has " + counted(group.devices, "device") + " without links",
             "its devices exchange data", "give it links");
    levels.push_back({LinkLevel{"inside", {}, LinkSharing::kSwitch, 1}, 0});
  }
  for (size_t l = 0; l < levels.size(); ++l) {
    const InnerLevel& inner = levels[l];
    check_level(inner.level);
    const int count = static_cast<int>(names.size());
    const int size = inner.size == 0 ? count : inner.size;
    if (size < 1 || count % size != 0 || (l + 1 == levels.size() && size != count))
      refuse("the links '" + inner.level.name + "' of machine '" + machine + "' join " +
                 std::to_string(size) + " of " + std::to_string(count),
             l + 1 == levels.size() ? "the last level of a machine joins all that is in it"
                                    : "groups of one level are equal",
             "correct its 'size', or leave it out: then it joins all");
    std::vector<int> next;
    std::vector<std::string> next_names;
    for (int begin = 0; begin < count; begin += size) {
      const int id = static_cast<int>(groups_.size());
      const std::string own =
          size == count ? machine : machine + "/" + inner.level.name + std::to_string(begin / size);
      Group made{own, inner.level, false, -1, 0, 0, {}, {}, 0};
      for (int i = begin; i < begin + size; ++i) {
        made.children.push_back(names[i]);
        if (nodes.empty()) {
          devices_[devices[i]].parent = id;
          devices_[devices[i]].index = i - begin;
        } else {
          groups_[nodes[i]].parent = id;
          groups_[nodes[i]].index = i - begin;
        }
      }
      made.rates.assign(size, inner.level.bytes_per_second());
      groups_.push_back(std::move(made));
      next.push_back(id);
      next_names.push_back(own);
    }
    nodes = std::move(next);
    names = std::move(next_names);
  }
  return nodes.front();
}

void Cluster::add_network(std::vector<int> nodes) {
  for (const NetworkLevel& level : description_.network) nodes = join(level, nodes);
  if (nodes.size() != 1)
    refuse(std::to_string(nodes.size()) + " parts of the cluster are not joined",
           "the last level of the network joins all machines",
           description_.network.empty() ? "describe the network between the machines"
                                        : "leave the 'size' of the last level out, or add a level");
}

std::vector<int> Cluster::join(const NetworkLevel& network, const std::vector<int>& children) {
  ensure(network.switch_of_child.size() == children.size(), "every child has a switch");
  const int count =
      1 + *std::max_element(network.switch_of_child.begin(), network.switch_of_child.end());
  const int first = static_cast<int>(groups_.size());
  for (int i = 0; i < count; ++i)
    groups_.push_back(
        {network.level.name + std::to_string(i), network.level, true, -1, 0, 0, {}, {}, 0});
  if (network.oversubscription == 0) check_level(network.level);
  for (size_t i = 0; i < children.size(); ++i) {
    Group& child = groups_[children[i]];
    child.parent = first + network.switch_of_child[i];
    Group& parent = groups_[child.parent];
    child.index = static_cast<int>(parent.children.size());
    parent.children.push_back(child.name);
    if (network.oversubscription == 0) {
      parent.rates.push_back(network.level.bytes_per_second());
      continue;
    }
    if (!child.is_network)
      refuse("the links '" + network.level.name + "' have an oversubscription and join machines",
             "the links between switches are a part of what the machines below can send",
             "give them a bandwidth, or stand them above another level of the network");
    const double all = std::accumulate(child.rates.begin(), child.rates.end(), 0.0);
    parent.rates.push_back(all / network.oversubscription);
  }
  std::vector<int> made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

void Cluster::set_depths() {
  // Parents have larger numbers than their children.
  for (int i = static_cast<int>(groups_.size()) - 1; i >= 0; --i)
    groups_[i].depth = groups_[i].parent < 0 ? 0 : groups_[groups_[i].parent].depth + 1;
}

// ---- channels ----

void Cluster::add_channels() {
  for (Group& group : groups_) {
    group.channels = static_cast<ChannelId>(channels_.size());
    const std::string& level = group.level.name;
    const size_t count = group.children.size();
    if (is_shared_by_all(group.level)) {
      channels_.push_back({group.name + " " + level, group.rates.front()});
      continue;
    }
    for (size_t a = 0; a < count; ++a) {
      if (group.level.sharing == LinkSharing::kSwitch) {
        channels_.push_back({group.children[a] + " " + level + " out", group.rates[a]});
        channels_.push_back({group.children[a] + " " + level + " in", group.rates[a]});
        continue;
      }
      for (size_t b = 0; b < count; ++b)
        if (a != b)
          channels_.push_back(
              {group.children[a] + " " + level + " to " + group.children[b], group.rates[a]});
    }
  }
}

void Cluster::add_direct_links() {
  int first = 0;
  for (const MachineGroup& group : description_.machines) {
    for (size_t i = 0; i < group.names.size(); ++i, first += group.devices) {
      for (const DirectLink& link : group.direct) {
        if (std::min(link.a, link.b) < 0 || std::max(link.a, link.b) >= group.devices)
          refuse("machine '" + group.names[i] + "' has a link between its devices " +
                     std::to_string(link.a) + " and " + std::to_string(link.b),
                 "it has " + counted(group.devices, "device") + ", numbered from 0",
                 "name two of its devices");
        add_direct_link(first + link.a, first + link.b, link.link);
      }
    }
  }
  for (const DirectLink& link : description_.direct) add_direct_link(link.a, link.b, link.link);
}

void Cluster::add_direct_link(DeviceId a, DeviceId b, const LinkCost& link) {
  ensure(std::min(a, b) >= 0 && std::max(a, b) < device_count(),
         "a direct link is between devices");
  const std::string text = name(a) + " and " + name(b);
  if (a == b) refuse("a link is between " + text, "these are the same device", "name two devices");
  if (link.bytes_per_second <= 0)
    refuse("the link between " + text + " has no bandwidth", "every message over it waits forever",
           "give it a bandwidth above 0");
  const auto channel = static_cast<ChannelId>(channels_.size());
  if (!direct_.try_emplace(std::minmax(a, b), link, channel).second)
    refuse("two links are between " + text, "two devices have one direct link, in both directions",
           "remove one of them, or add up their bandwidths");
  const auto [low, high] = std::minmax(a, b);
  channels_.push_back({name(low) + " to " + name(high), link.bytes_per_second});
  channels_.push_back({name(high) + " to " + name(low), link.bytes_per_second});
}

// ---- what callers ask for ----

const DeviceType& Cluster::type(DeviceId device) const {
  return description_.types[devices_.at(device).type];
}

std::string Cluster::name(DeviceId device) const {
  const int machine = devices_.at(device).machine;
  return machine_names_[machine] + "/" + std::to_string(device - of_machine_[machine].front());
}

std::vector<DeviceGroup> Cluster::groups() const {
  std::vector<DeviceGroup> groups;
  for (DeviceId device = 0; device < device_count(); ++device) {
    const std::string& type_name = type(device).name;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const DeviceGroup& other) { return other.type == type_name; });
    if (group == groups.end()) group = groups.insert(group, {type_name, {}});
    group->devices.push_back(device);
  }
  return groups;
}

std::vector<std::pair<int, int>> Cluster::groups_of(DeviceId device) const {
  std::vector<std::pair<int, int>> list;
  int child = devices_.at(device).index;
  for (int group = devices_[device].parent; group >= 0; group = groups_[group].parent) {
    list.emplace_back(group, child);
    child = groups_[group].index;
  }
  return list;
}

void Cluster::pass(const Group& group, int from, int to, std::vector<ChannelId>& path) const {
  if (group.level.sharing != LinkSharing::kMesh) {
    leave(group, from, path);
    if (!is_shared_by_all(group.level)) enter(group, to, path);
    return;
  }
  const int others = static_cast<int>(group.children.size()) - 1;
  path.push_back(group.channels + from * others + (to < from ? to : to - 1));
}

void Cluster::leave(const Group& group, int child, std::vector<ChannelId>& path) const {
  if (is_shared_by_all(group.level)) path.push_back(group.channels);
  if (group.level.sharing == LinkSharing::kSwitch) path.push_back(group.channels + 2 * child);
}

void Cluster::enter(const Group& group, int child, std::vector<ChannelId>& path) const {
  if (is_shared_by_all(group.level)) path.push_back(group.channels);
  if (group.level.sharing == LinkSharing::kSwitch) path.push_back(group.channels + 2 * child + 1);
}

std::vector<ChannelId> Cluster::path(DeviceId from, DeviceId to) const {
  if (from == to) return {};
  if (const auto link = direct_.find(std::minmax(from, to)); link != direct_.end())
    return {link->second.second + (from < to ? 0 : 1)};
  std::vector<std::pair<int, int>> up = groups_of(from), down = groups_of(to);
  const int joint = static_cast<int>(&smallest_group_of(from, to) - groups_.data());
  std::vector<ChannelId> path;
  auto left = up.begin();
  for (; left->first != joint; ++left)
    if (groups_[left->first].is_network) leave(groups_[left->first], left->second, path);
  auto entered =
      std::find_if(down.begin(), down.end(), [&](const auto& at) { return at.first == joint; });
  pass(groups_[joint], left->second, entered->second, path);
  while (entered != down.begin()) {
    --entered;
    if (groups_[entered->first].is_network) enter(groups_[entered->first], entered->second, path);
  }
  return path;
}

const Cluster::Group& Cluster::smallest_group_of(DeviceId a, DeviceId b) const {
  int x = devices_.at(a).parent, y = devices_.at(b).parent;
  while (x != y) {
    int& deeper = groups_[x].depth >= groups_[y].depth ? x : y;
    deeper = groups_[deeper].parent;
  }
  return groups_[x];
}

LinkCost Cluster::link(DeviceId from, DeviceId to) const {
  if (from == to) return {Seconds(0), type(from).cost.copied_bytes_per_second};
  if (const auto found = direct_.find(std::minmax(from, to)); found != direct_.end())
    return found->second.first;
  LinkCost link{smallest_group_of(from, to).level.link.latency,
                std::numeric_limits<double>::infinity()};
  for (ChannelId channel : path(from, to))
    link.bytes_per_second = std::min(link.bytes_per_second, channels_[channel].bytes_per_second);
  return link;
}

std::string Cluster::level(DeviceId a, DeviceId b) const {
  if (a == b) return "";
  return direct_.contains(std::minmax(a, b)) ? "direct" : smallest_group_of(a, b).level.name;
}

}  // namespace tessera
