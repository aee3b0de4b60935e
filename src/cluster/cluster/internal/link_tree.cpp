#include "cluster/cluster/internal/link_tree.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text/count_text.h"

namespace tessera {
namespace {

void check_bandwidth(const LinkLevel& level) {
  if (level.bytes_per_second() > 0) return;
  refuse_config("the links '" + level.name + "' have no bandwidth",
                "a message over them never arrives", "give them a bandwidth above 0");
}

}  // namespace

LinkTree::LinkTree(const ClusterDescription& description) {
  std::vector<int> nodes;
  for (const MachineGroup& machine : description.machines)
    for (const std::string& name : machine.names) nodes.push_back(add_machine(machine, name));
  for (const NetworkLevel& level : description.network) nodes = join(level, nodes);
  if (nodes.size() != 1)
    refuse_config("the network leaves " + std::to_string(nodes.size()) +
                      " parts of the cluster that nothing joins",
                  "every two devices of a cluster can communicate",
                  description.network.empty() ? "describe the network between the machines"
                                              : "add a level without a 'size', which joins all");
  set_depths();
  add_channels();
  add_direct_links(description);
}

// ---- groups ----

/// Groups of the devices of a machine, up to the one that is the machine.
int LinkTree::add_machine(const MachineGroup& machine, const std::string& name) {
  const int first = static_cast<int>(devices_.size());
  for (int i = 0; i < machine.devices; ++i) {
    names_.push_back(name + "/" + std::to_string(i));
    in_machine_.push_back(i);
  }
  devices_.resize(names_.size());
  std::vector<InnerLevel> levels = machine.levels;
  if (levels.empty()) {
    if (machine.devices > 1)
      refuse_config(
          "machine '" + name + "' has " + counted(machine.devices, "device") + " without links",
          "its devices exchange data", "describe its links");
    levels.push_back({LinkLevel{"inside", {}, LinkSharing::kSwitch, 1}, 0});
  }
  std::vector<int> nodes(machine.devices);
  std::iota(nodes.begin(), nodes.end(), first);
  for (const InnerLevel& level : levels) {
    const int groups = static_cast<int>(groups_.size());
    nodes = join_inside(level, name, nodes, &level == &levels.front() ? -1 : groups);
  }
  if (nodes.size() != 1)
    refuse_config("the links '" + levels.back().level.name + "' of machine '" + name + "' leave " +
                      std::to_string(nodes.size()) + " parts that nothing joins",
                  "the last level of a machine joins all of its devices",
                  "leave its 'size' out, or add a level");
  groups_[nodes.front()].name = name;
  groups_[nodes.front()].machine_devices = machine.devices;
  groups_[nodes.front()].machine_ports = machine.network;
  return nodes.front();
}

///   nodes  devices where `first` is -1, else groups
std::vector<int> LinkTree::join_inside(const InnerLevel& inner, const std::string& machine,
                                       const std::vector<int>& nodes, int first) {
  check_bandwidth(inner.level);
  const int count = static_cast<int>(nodes.size());
  const int size = inner.size == 0 ? count : inner.size;
  if (size < 1 || count % size != 0)
    refuse_config("the links '" + inner.level.name + "' of machine '" + machine + "' join " +
                      std::to_string(size) + " of " + std::to_string(count),
                  "the groups of one level have one size",
                  "correct their 'size', or leave it out: then they join all");
  std::vector<int> made;
  for (int i = 0; i < count; ++i) {
    if (i % size == 0) {
      made.push_back(static_cast<int>(groups_.size()));
      const std::string name = machine + "/" + inner.level.name + std::to_string(i / size);
      groups_.push_back({name, inner.level, false, -1, 0, 0, {}});
    }
    Group& group = groups_.back();
    const Place place{made.back(), i % size, nodes[i]};
    if (first < 0) {
      devices_[nodes[i]] = place;
      group.children.push_back(names_[nodes[i]]);
    } else {
      groups_[nodes[i]].parent = place.group;
      groups_[nodes[i]].index = place.child;
      group.children.push_back(groups_[nodes[i]].name);
    }
    group.rates.push_back(inner.level.bytes_per_second());
  }
  return made;
}

std::vector<int> LinkTree::join(const NetworkLevel& network, const std::vector<int>& nodes) {
  ensure(network.switch_of_child.size() == nodes.size(), "every child has a switch");
  const bool has_bandwidth = network.oversubscription == 0;
  if (has_bandwidth) check_bandwidth(network.level);
  const auto& switches = network.switch_of_child;
  std::vector<int> made(1 + *std::max_element(switches.begin(), switches.end()));
  std::iota(made.begin(), made.end(), static_cast<int>(groups_.size()));
  for (size_t i = 0; i < made.size(); ++i)
    groups_.push_back({network.level.name + std::to_string(i), network.level, true, -1, 0, 0, {}});
  for (size_t i = 0; i < nodes.size(); ++i) {
    Group& child = groups_[nodes[i]];
    child.parent = made.at(switches[i]);
    Group& parent = groups_[child.parent];
    child.index = static_cast<int>(parent.children.size());
    parent.children.push_back(child.name);
    if (!has_bandwidth && !child.is_network)
      refuse_config(
          "the links '" + network.level.name + "' have an oversubscription and join machines",
          "it is the part of what the machines can send together that the links between "
          "their switches carry",
          "give the level a bandwidth, or stand it above another level of the network");
    parent.devices.push_back(child.machine_devices);
    parent.port_counts.push_back(child.machine_ports ? child.machine_ports->ports
                                                     : network.level.ports);
    const double below = std::accumulate(child.rates.begin(), child.rates.end(), 0.0);
    parent.rates.push_back(child.machine_ports
                               ? child.machine_ports->ports * child.machine_ports->bytes_per_second
                           : has_bandwidth ? network.level.bytes_per_second()
                                           : below / network.oversubscription);
  }
  return made;
}

void LinkTree::set_depths() {
  for (int i = static_cast<int>(groups_.size()) - 1; i >= 0; --i)
    groups_[i].depth = groups_[i].parent < 0 ? 0 : groups_[groups_[i].parent].depth + 1;
}

// ---- channels ----

bool LinkTree::Group::has_different_children() const {
  return std::ranges::any_of(rates, [&](double rate) { return rate != rates.front(); });
}

void LinkTree::add_channels() {
  for (Group& group : groups_) {
    group.channels = static_cast<ChannelId>(channels_.size());
    const std::string level = " " + group.level.name;
    if (group.level.sharing == LinkSharing::kBus) {
      channels_.push_back({group.name + level, *std::ranges::max_element(group.rates)});
      if (group.has_different_children())
        for (size_t i = 0; i < group.children.size(); ++i)
          channels_.push_back({group.children[i] + level, group.rates[i]});
      continue;
    }
    for (size_t a = 0; a < group.children.size(); ++a) {
      const std::string from = group.children[a] + level;
      if (group.level.sharing == LinkSharing::kSwitch) {
        group.ports.push_back(static_cast<ChannelId>(channels_.size()));
        const int count = port_count(group, static_cast<int>(a));
        for (int port = 0; port < count; ++port) {
          const std::string name = from + (count > 1 ? " port " + std::to_string(port) : "");
          channels_.push_back({name + " out", group.rates[a] / count});
          channels_.push_back({name + " in", group.rates[a] / count});
        }
        continue;
      }
      for (size_t b = 0; b < group.children.size(); ++b)
        if (a != b) channels_.push_back({from + " to " + group.children[b], group.rates[a]});
    }
  }
}

void LinkTree::add_direct_links(const ClusterDescription& description) {
  int first = 0;
  for (const MachineGroup& group : description.machines) {
    for (size_t i = 0; i < group.names.size(); ++i, first += group.devices) {
      for (const DirectLink& link : group.direct) {
        if (std::min(link.a, link.b) < 0 || std::max(link.a, link.b) >= group.devices)
          refuse_config("machine '" + group.names[i] + "' has a link between its devices " +
                            std::to_string(link.a) + " and " + std::to_string(link.b),
                        "it has " + counted(group.devices, "device") + ", numbered from 0",
                        "name two of its devices");
        add_direct_link(first + link.a, first + link.b, link.link);
      }
    }
  }
  for (const DirectLink& link : description.direct) add_direct_link(link.a, link.b, link.link);
}

void LinkTree::add_direct_link(DeviceId a, DeviceId b, const LinkCost& link) {
  ensure(std::min(a, b) >= 0 && std::max(a, b) < std::ssize(devices_),
         "a direct link is between devices");
  const auto [low, high] = std::minmax(a, b);
  const std::string text = names_[low] + " and " + names_[high];
  if (a == b)
    refuse_config("a link is between " + text, "these are the same device", "name two devices");
  if (link.bytes_per_second <= 0)
    refuse_config("the link between " + text + " has no bandwidth",
                  "a message over it never arrives", "give it a bandwidth above 0");
  const auto channel = static_cast<ChannelId>(channels_.size());
  if (!direct_.try_emplace({low, high}, link, channel).second)
    refuse_config("two links are between " + text,
                  "two devices have one direct link, in both directions",
                  "remove one of them, or add up their bandwidths");
  channels_.push_back({names_[low] + " to " + names_[high], link.bytes_per_second});
  channels_.push_back({names_[high] + " to " + names_[low], link.bytes_per_second});
}

int LinkTree::port_count(const Group& group, int child) const {
  if (child >= std::ssize(group.devices)) return 1;
  return std::clamp(group.devices[child], 1, group.port_counts[child]);
}

ChannelId LinkTree::port(Place place, bool into) const {
  const Group& group = groups_[place.group];
  const int count = port_count(group, place.child);
  const int own = count == 1 ? 0 : in_machine_[place.device] * count / group.devices[place.child];
  return group.ports[place.child] + 2 * own + (into ? 1 : 0);
}

// ---- paths ----

int LinkTree::smallest_group_of(DeviceId a, DeviceId b) const {
  int x = devices_.at(a).group, y = devices_.at(b).group;
  while (x != y) {
    int& deeper = groups_[x].depth >= groups_[y].depth ? x : y;
    deeper = groups_[deeper].parent;
  }
  return x;
}

std::vector<LinkTree::Place> LinkTree::places_of(DeviceId device, int last) const {
  std::vector<Place> places{devices_.at(device)};
  while (places.back().group != last) {
    const Group& group = groups_[places.back().group];
    places.push_back({group.parent, group.index, device});
  }
  return places;
}

std::vector<ChannelId> LinkTree::path(DeviceId from, DeviceId to) const {
  if (from == to) return {};
  if (const auto link = direct_.find(std::minmax(from, to)); link != direct_.end())
    return {link->second.second + (from < to ? 0 : 1)};
  const int joint = smallest_group_of(from, to);
  const std::vector<Place> up = places_of(from, joint), down = places_of(to, joint);
  std::vector<ChannelId> path;
  // The port of a child of a switch, or the bus and, of different children, the link to it; a mesh
  // has links between its children only.
  const auto add_port = [&](Place place, int direction) {
    const Group& group = groups_[place.group];
    if (group.level.sharing == LinkSharing::kBus) path.push_back(group.channels);
    if (group.level.sharing == LinkSharing::kBus && group.has_different_children())
      path.push_back(group.channels + 1 + place.child);
    if (group.level.sharing == LinkSharing::kSwitch) path.push_back(port(place, direction == 1));
  };
  const auto passes = [&](Place place) {
    return groups_[place.group].is_network && place.group != joint;
  };
  for (Place place : up)
    if (passes(place)) add_port(place, 0);
  const int a = up.back().child, b = down.back().child;
  const Group& group = groups_[joint];
  if (group.level.sharing == LinkSharing::kMesh) {
    const int others = static_cast<int>(group.children.size()) - 1;
    path.push_back(group.channels + a * others + (b < a ? b : b - 1));
  } else {
    add_port(up.back(), 0);
    if (group.level.sharing == LinkSharing::kSwitch) add_port(down.back(), 1);
    if (group.level.sharing == LinkSharing::kBus && group.has_different_children())
      path.push_back(group.channels + 1 + b);
  }
  for (auto place = down.rbegin(); place != down.rend(); ++place)
    if (passes(*place)) add_port(*place, 1);
  return path;
}

const LinkCost& LinkTree::joint_link(DeviceId from, DeviceId to) const {
  const auto link = direct_.find(std::minmax(from, to));
  return link != direct_.end() ? link->second.first
                               : groups_[smallest_group_of(from, to)].level.link;
}

std::string LinkTree::level(DeviceId a, DeviceId b) const {
  return direct_.contains(std::minmax(a, b)) ? "direct"
                                             : groups_[smallest_group_of(a, b)].level.name;
}

}  // namespace tessera
