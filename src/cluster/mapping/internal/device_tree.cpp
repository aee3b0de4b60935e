#include "cluster/mapping/internal/device_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tessera {
namespace {

constexpr double kUnreachable = std::numeric_limits<double>::infinity();

/// The two fastest children of a node: the least time of a byte to other children, and the child.
struct FastestChildren {
  std::pair<double, size_t> first{kUnreachable, 0}, second{kUnreachable, 0};

  void add(size_t child, double per_byte) {
    if (child == first.second || first.first == kUnreachable) {
      first = {std::min(first.first, per_byte), child};
    } else if (per_byte < first.first) {
      second = first;
      first = {per_byte, child};
    } else if (per_byte < second.first) {
      second = {per_byte, child};
    }
  }
  /// Of a byte between two different children: the slower one counts.
  double min_with(const FastestChildren& other) const {
    if (first.second != other.first.second) return std::max(first.first, other.first.first);
    return std::min(std::max(first.first, other.second.first),
                    std::max(second.first, other.first.first));
  }
};

/// A group of the description. Ports of children: by child.
struct Group {
  LinkLevel level;
  bool is_network = false;
  int parent = -1, index = 0, height = 0;
  std::vector<double> rates = {};
};

/// The groups of a description, and of each device the innermost one.
struct Groups {
  std::vector<Group> all;
  std::vector<int> of_device;
  std::vector<int> type_of_device;
};

int type_index(const ClusterDescription& description, const std::string& name) {
  const auto found = std::find_if(description.types.begin(), description.types.end(),
                                  [&](const DeviceType& type) { return type.name == name; });
  return static_cast<int>(found - description.types.begin());
}

/// The levels inside of machines: the outermost one has the height `most`.
int add_machine(const MachineGroup& machine, int type, int largest, Groups& groups) {
  std::vector<InnerLevel> levels = machine.levels;
  if (levels.empty()) levels.push_back({LinkLevel{"inside", {}, LinkSharing::kSwitch, 1}, 0});
  std::vector<int> nodes;
  int count = machine.devices, height = largest - static_cast<int>(levels.size()) + 1;
  for (const auto& [level, wanted] : levels) {
    const int size = wanted == 0 ? count : wanted;
    std::vector<int> next;
    for (int begin = 0; begin < count; begin += size) {
      const int id = static_cast<int>(groups.all.size());
      next.push_back(id);
      groups.all.push_back({level, false, -1, 0, height});
      groups.all.back().rates.assign(size, level.bytes_per_second());
      for (int i = begin; i < begin + size; ++i) {
        if (nodes.empty()) {
          groups.of_device.push_back(id);
          groups.type_of_device.push_back(type);
        } else {
          groups.all[nodes[i]].parent = id;
          groups.all[nodes[i]].index = i - begin;
        }
      }
    }
    nodes = std::move(next);
    count = static_cast<int>(nodes.size());
    ++height;
  }
  return nodes.front();
}

std::vector<int> join(const NetworkLevel& network, const std::vector<int>& children, int height,
                      std::vector<Group>& all) {
  const int count =
      1 + *std::max_element(network.switch_of_child.begin(), network.switch_of_child.end());
  const int first = static_cast<int>(all.size());
  for (int i = 0; i < count; ++i) all.push_back({network.level, true, -1, 0, height});
  for (size_t i = 0; i < children.size(); ++i) {
    Group& child = all[children[i]];
    child.parent = first + network.switch_of_child[i];
    std::vector<double>& rates = all[child.parent].rates;
    child.index = static_cast<int>(rates.size());
    rates.push_back(network.oversubscription == 0
                        ? network.level.bytes_per_second()
                        : std::accumulate(child.rates.begin(), child.rates.end(), 0.0) /
                              network.oversubscription);
  }
  std::vector<int> made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

Groups groups_of(const ClusterDescription& description) {
  size_t largest = 1;
  for (const MachineGroup& machine : description.machines)
    largest = std::max(largest, machine.levels.size());
  Groups groups;
  std::vector<int> nodes;
  int height = static_cast<int>(largest);
  for (const MachineGroup& machine : description.machines)
    for (size_t i = 0; i < machine.names.size() && machine.devices > 0; ++i)
      nodes.push_back(
          add_machine(machine, type_index(description, machine.device), height, groups));
  for (const NetworkLevel& network : description.network)
    nodes = join(network, nodes, ++height, groups.all);
  return groups;
}

}  // namespace

/// Collects the direct links of a description, by device.
struct DeviceTree::Builder {
  std::vector<std::vector<std::pair<int, LinkPrice>>> direct;
  std::vector<int> mark;

  explicit Builder(const ClusterDescription& description, int devices)
      : direct(devices), mark(devices, -1) {
    int first = 0, marks = 0;
    for (const MachineGroup& machine : description.machines) {
      for (size_t i = 0; i < machine.names.size() && machine.devices > 0; ++i) {
        for (const DirectLink& link : machine.direct)
          add(first + link.a, first + link.b, link.link);
        for (int d = 0; d < machine.devices && !machine.direct.empty(); ++d)
          mark[first + d] = marks + d;
        first += machine.devices;
      }
      marks += std::max(machine.devices, 0);
    }
    for (const DirectLink& link : description.direct) {
      add(link.a, link.b, link.link);
      mark[link.a] = marks + link.a;
      mark[link.b] = marks + link.b;
    }
  }
  void add(int a, int b, const LinkCost& link) {
    const LinkPrice price{1 / link.bytes_per_second, link.latency.value()};
    direct[a].emplace_back(b, price);
    direct[b].emplace_back(a, price);
  }
};

DeviceTree::DeviceTree(const Cluster& cluster) {
  const Groups groups = groups_of(cluster.description());
  const int count = cluster.device_count();
  ensure(std::ssize(groups.of_device) == count, "the tree has the devices of the cluster");
  std::vector<double> latencies;
  std::vector<int> heights;
  for (const Group& group : groups.all) {
    latencies.push_back(group.level.link.latency.value());
    heights.push_back(group.height);
  }
  std::vector<std::vector<Step>> steps(count);
  for (DeviceId device = 0; device < count; ++device) {
    double below = 0;  // what a byte takes in the network on the way up to the group
    int child = 0;
    for (int g = groups.of_device[device]; g >= 0; g = groups.all[g].parent) {
      const Group& group = groups.all[g];
      const double port = 1 / group.rates[child];
      const double per_byte = group.is_network ? std::max(below, port) : port;
      steps[device].insert(steps[device].begin(), {g, per_byte});
      if (group.is_network && group.level.sharing != LinkSharing::kMesh)
        below = std::max(below, port);
      child = group.index;
    }
  }
  // Places are in the order of the tree: switches may join machines in another order.
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::lexicographical_compare(
        steps[a].begin(), steps[a].end(), steps[b].begin(), steps[b].end(),
        [](const Step& x, const Step& y) { return x.node < y.node; });
  });
  Builder builder(cluster.description(), count);
  std::vector<Place> place_of(count);
  std::vector<std::vector<Step>> sorted;
  for (int place = 0; place < count; ++place) {
    place_of[order[place]] = place;
    devices_.push_back(order[place]);
    types_.push_back(groups.type_of_device[order[place]]);
    direct_mark_.push_back(builder.mark[order[place]]);
    sorted.push_back(std::move(steps[order[place]]));
    direct_.push_back(std::move(builder.direct[order[place]]));
    direct_count_ += static_cast<int>(direct_.back().size());
  }
  for (auto& links : direct_)
    for (auto& [other, price] : links) other = place_of[other];
  add_nodes(sorted, latencies, heights);
  set_direct_height();
}

void DeviceTree::add_nodes(const std::vector<std::vector<Step>>& steps,
                           const std::vector<double>& latencies, const std::vector<int>& heights) {
  depths_ = 0;
  for (const auto& path : steps) depths_ = std::max(depths_, static_cast<int>(path.size()));
  steps_.assign(steps.size() * depths_, {});
  std::map<int, int> ids;
  for (size_t p = 0; p < steps.size(); ++p) {
    int parent = -1;
    for (size_t k = 0; k < steps[p].size(); ++k) {
      const int old = steps[p][k].node;
      const auto [found, is_new] = ids.try_emplace(old, static_cast<int>(nodes_.size()));
      if (is_new) {
        nodes_.push_back({latencies[old], parent, heights[old], {}, static_cast<Place>(p), 0, 0});
        if (parent >= 0) nodes_[parent].children.push_back(found->second);
      }
      nodes_[found->second].end = static_cast<Place>(p) + 1;
      steps_[p * depths_ + k] = {found->second, steps[p][k].per_byte};
      parent = found->second;
    }
    parents_.push_back(parent);
  }
  set_shapes();
}

void DeviceTree::set_shapes() {
  std::map<std::vector<double>, int> known;
  const auto shape = [&](const std::vector<double>& key) {
    return known.try_emplace(key, static_cast<int>(known.size())).first->second;
  };
  for (Place p = 0; p < size(); ++p) {
    std::vector<double> key{-1, static_cast<double>(types_[p]),
                            static_cast<double>(direct_mark_[p])};
    for (int k = 0; k < depths_; ++k) key.push_back(steps_[p * depths_ + k].per_byte);
    shapes_.push_back(shape(key));
  }
  // Children have larger numbers than their parents.
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    std::vector<double> key;
    for (int child : node->children) key.push_back(nodes_[child].shape);
    if (node->children.empty())
      for (Place p = node->begin; p < node->end; ++p) key.push_back(shapes_[p]);
    key.push_back(node->latency);
    key.push_back(-2);
    node->shape = shape(key);
  }
}

void DeviceTree::set_direct_height() {
  direct_height_ = -1;
  for (Place a = 0; a < size(); ++a)
    for (const auto& [b, price] : direct_[a]) {
      int k = depths_ - 1;
      const auto node = [&](Place place) { return steps_[place * depths_ + k].node; };
      while (node(a) < 0 || node(a) != node(b)) --k;
      direct_height_ = std::max(direct_height_, nodes_[node(a)].height);
    }
}

LinkPrice DeviceTree::best_link(int node) const {
  const std::vector<bool> all(*std::max_element(types_.begin(), types_.end()) + 1, true);
  return best_link(node, all, all);
}

LinkPrice DeviceTree::best_link(int node, const std::vector<bool>& from,
                                const std::vector<bool>& to) const {
  const Node& group = nodes_[node];
  int depth = 0;
  for (int up = group.parent; up >= 0; up = nodes_[up].parent) ++depth;
  const auto step = [&](Place place) { return steps_[place * depths_ + depth].per_byte; };
  FastestChildren senders, receivers;
  size_t child = 0;
  for (Place p = group.begin; p < group.end; ++p) {
    if (group.children.empty())
      child = p;
    else if (p == nodes_[group.children[child]].end)
      ++child;
    if (from[types_[p]]) senders.add(child, step(p));
    if (to[types_[p]]) receivers.add(child, step(p));
  }
  const double per_byte = senders.min_with(receivers);
  LinkPrice price{per_byte, per_byte == kUnreachable ? kUnreachable : group.latency};
  for (Place p = group.begin; p < group.end && direct_count_ > 0; ++p)
    for (const auto& [other, link] : direct_[p]) {
      if (other < group.begin || other >= group.end || !from[types_[p]] || !to[types_[other]])
        continue;
      price.per_byte = std::min(price.per_byte, link.per_byte);
      price.per_message = std::min(price.per_message, link.per_message);
    }
  return price;
}

std::pair<Place, Place> DeviceTree::siblings(Place place) const {
  const Node& node = nodes_[parents_[place]];
  return {node.begin, node.end};
}

DeviceTree DeviceTree::keep(const std::vector<bool>& kept) const {
  DeviceTree tree = *this;
  tree.nodes_.clear();
  tree.steps_.clear();
  for (auto* list :
       {&tree.devices_, &tree.types_, &tree.shapes_, &tree.parents_, &tree.direct_mark_})
    list->clear();
  tree.direct_.clear();
  tree.direct_count_ = 0;
  std::vector<Place> renamed(size(), -1);
  std::vector<std::vector<Step>> steps;
  for (Place p = 0; p < size(); ++p) {
    if (!kept[p]) continue;
    renamed[p] = tree.size();
    tree.devices_.push_back(devices_[p]);
    tree.types_.push_back(types_[p]);
    tree.direct_mark_.push_back(direct_mark_[p]);
    tree.direct_.push_back(direct_[p]);
    auto& path = steps.emplace_back();
    for (int k = 0; k < depths_ && steps_[p * depths_ + k].node >= 0; ++k)
      path.push_back(steps_[p * depths_ + k]);
  }
  for (auto& links : tree.direct_) {
    std::erase_if(links, [&](const auto& link) { return renamed[link.first] < 0; });
    for (auto& [other, price] : links) other = renamed[other];
    tree.direct_count_ += static_cast<int>(links.size());
  }
  std::vector<double> latencies;
  std::vector<int> heights;
  for (const Node& node : nodes_) {
    latencies.push_back(node.latency);
    heights.push_back(node.height);
  }
  tree.add_nodes(steps, latencies, heights);
  tree.set_direct_height();
  return tree;
}

std::vector<Place> DeviceTree::groups(int height) const {
  std::vector<Place> of_place(size());
  int last = -1, count = 0;
  for (Place p = 0; p < size(); ++p) {
    // The outermost node of at most this height; the place itself when there is none.
    int group = static_cast<int>(nodes_.size()) + p;
    for (int k = depths_ - 1; k >= 0; --k) {
      const int node = steps_[p * depths_ + k].node;
      if (node >= 0 && nodes_[node].height <= height) group = node;
    }
    if (group != last) ++count;
    last = group;
    of_place[p] = count - 1;
  }
  return of_place;
}

DeviceTree DeviceTree::contract(int height) const {
  ensure(direct_height_ <= height, "direct links stay inside of the contracted groups");
  const std::vector<Place> group = groups(height);
  std::vector<double> latencies;
  std::vector<int> heights;
  for (const Node& node : nodes_) {
    latencies.push_back(node.latency);
    heights.push_back(node.height);
  }
  DeviceTree tree;
  std::vector<std::vector<Step>> steps;
  for (Place p = 0; p < size(); ++p) {
    if (p > 0 && group[p] == group[p - 1]) continue;
    auto& path = steps.emplace_back();
    int shape = shapes_[p];
    for (int k = 0; k < depths_ && steps_[p * depths_ + k].node >= 0; ++k) {
      const int node = steps_[p * depths_ + k].node;
      if (nodes_[node].height > height) {
        path.push_back(steps_[p * depths_ + k]);
        continue;
      }
      shape = nodes_[node].shape;
      break;
    }
    tree.devices_.push_back(p);
    tree.types_.push_back(shape);
    tree.direct_mark_.push_back(-1);
    tree.direct_.emplace_back();
  }
  tree.add_nodes(steps, latencies, heights);
  return tree;
}

}  // namespace tessera
