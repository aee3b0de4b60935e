#include "simulator/step/deployment.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "sharding/propagation/axis_levels.h"

namespace tessera {
namespace {

double smallest(double a, double b) {
  return std::min(a, b);
}

double time_factor(const DeviceCost& cost, OperationClass operation) {
  const ClassRates* rates = cost.rates_of(operation);
  return rates ? rates->time_factor : 1;
}

/// What is slower of both, rate by rate.
void slow_down(DeviceCost& cost, const DeviceCost& other) {
  cost.bytes_per_second = smallest(cost.bytes_per_second, other.bytes_per_second);
  cost.copied_bytes_per_second =
      smallest(cost.copied_bytes_per_second, other.copied_bytes_per_second);
  cost.file_bytes_per_second = smallest(cost.file_bytes_per_second, other.file_bytes_per_second);
  cost.launch = std::max(Seconds(cost.launch_factor * cost.launch.value()),
                         Seconds(other.launch_factor * other.launch.value()));
  cost.launch_factor = 1;
  cost.fused = std::max(cost.fused, other.fused);
  for (const OperationClassName& name : kOperationClasses) {
    ClassRates rates;
    const OperationClass operation = name.operation;
    const double factor = time_factor(cost, operation), of_other = time_factor(other, operation);
    const auto slower = [&](double rate, double other_rate) {
      return smallest(rate / factor, other_rate / of_other);
    };
    rates.flops_per_second =
        slower(cost.flops_rate(operation, DType::kF32), other.flops_rate(operation, DType::kF32));
    rates.bytes_per_second = slower(cost.memory_rate(operation), other.memory_rate(operation));
    for (const DTypeTraits& dtype : kDTypes) {
      const double rate =
          slower(cost.flops_rate(operation, dtype.dtype), other.flops_rate(operation, dtype.dtype));
      if (rate != *rates.flops_per_second) rates.flops_per_second_of[dtype.dtype] = rate;
    }
    for (const DeviceCost* each : {&std::as_const(cost), &other})
      if (const ClassRates* own = each->rates_of(operation))
        rates.half_extent = std::max(rates.half_extent, own->half_extent);
    cost.classes[operation] = rates;
  }
  cost.kernels.clear();
  cost.flops_per_second = smallest(cost.flops_per_second, other.flops_per_second);
}

DeviceCost slowest_device(const Deployment& deployment) {
  DeviceCost cost = deployment.type(0).cost;
  const DeviceType* last = &deployment.type(0);
  for (DeviceId device : deployment.device_of_rank) {
    const DeviceType& type = deployment.cluster->type(device);
    if (&type != last && !(type.cost == cost)) slow_down(cost, type.cost);
    last = &type;
  }
  return cost;
}

/// Messages that are sent at the same time.
class Messages {
 public:
  explicit Messages(const Deployment& deployment)
      : deployment_(deployment), load_(deployment.cluster->channels().size()) {}

  void add(Rank from, Rank to) {
    const DeviceId a = deployment_.device(from), b = deployment_.device(to);
    if (a == b) return;
    paths_.push_back(deployment_.cluster->path(a, b));
    for (ChannelId channel : paths_.back()) ++load_[channel];
    const LinkCost link = deployment_.cluster->link(a, b);
    latency_ = std::max(latency_, link.latency);
    start_ = std::max(start_, link.start);
  }
  bool empty() const { return paths_.empty(); }
  /// Of the slowest message, when all have the same number of bytes.
  LinkCost slowest() const {
    LinkCost link{latency_, std::numeric_limits<double>::infinity(), start_};
    for (const std::vector<ChannelId>& path : paths_)
      for (ChannelId channel : path)
        link.bytes_per_second =
            smallest(link.bytes_per_second,
                     deployment_.cluster->channels()[channel].bytes_per_second / load_[channel]);
    return link;
  }

 private:
  const Deployment& deployment_;
  std::vector<int> load_;
  std::vector<std::vector<ChannelId>> paths_;
  Seconds latency_{0}, start_{0};
};

/// A ring over each group of an axis of the mesh.
void add_rings(const Mesh& mesh, int axis, Messages& messages) {
  for (int i = 0; i < mesh.size(); ++i) {
    Coordinate next = mesh.coordinate_at(i);
    next[axis] = (next[axis] + 1) % mesh.shape()[axis];
    messages.add(mesh.ranks()[i], mesh.rank_at(next));
  }
}

bool is_slower(const LinkCost& a, const LinkCost& b) {
  return a.bytes_per_second < b.bytes_per_second;
}

/// Between the ranks of one mesh and those of the next, as stages send.
LinkCost between(const Mesh& first, const Mesh& second, const Deployment& deployment) {
  Messages messages(deployment);
  for (int i = 0; i < std::max(first.size(), second.size()); ++i)
    messages.add(first.ranks()[i % first.size()], second.ranks()[i % second.size()]);
  return messages.slowest();
}

enum class Need : uint8_t { kType, kKind, kAny };

/// By rank.
std::vector<Need> needs_of(const Cluster& cluster, std::span<const std::string> hardware) {
  std::set<std::string> types;
  for (const DeviceType& type : cluster.description().types) types.insert(type.name);
  std::vector<Need> needs;
  for (const std::string& name : hardware)
    needs.push_back(name.empty() ? Need::kAny : types.contains(name) ? Need::kType : Need::kKind);
  return needs;
}

[[noreturn]] void refuse_hardware(const Cluster& cluster, std::span<const std::string> hardware,
                                  const std::string& needed) {
  int64_t devices = 0;
  std::vector<std::string> types;
  for (const DeviceGroup& group : cluster.groups()) {
    const DeviceType& type = cluster.type(group.devices.front());
    types.push_back(std::to_string(group.devices.size()) + " x " + type.name + " (" +
                    std::string(to_text(type.kind)) + ")");
    if (can_have(type, needed)) devices += std::ssize(group.devices);
  }
  throw UserError("the plan needs '" + needed + "' for " +
                      counted(std::ranges::count(hardware, needed), "rank") +
                      ", and the cluster has " + counted(devices, "such device"),
                  "its devices are " + join(types, ", ") + "; each rank has one of its own",
                  "use another cluster, or change 'hardware' of the meshes of the plan",
                  ExitCode::kBadConfig);
}

}  // namespace

bool runs_exchanges_ahead(const Cluster& cluster) {
  return cluster.type(0).kind != HardwareKind::kCpu && cluster.description().runtime.overlaps;
}

bool can_have(const DeviceType& type, const std::string& hardware) {
  return hardware.empty() || type.name == hardware || to_text(type.kind) == hardware;
}

Deployment identity_mapping(const Cluster& cluster, std::span<const std::string> hardware) {
  const int ranks = static_cast<int>(hardware.size());
  Deployment deployment = identity_mapping(cluster, ranks);
  if (std::ranges::all_of(hardware, &std::string::empty)) return deployment;
  const std::vector<Need> needs = needs_of(cluster, hardware);
  // Ranks share the cores of a cluster of cores, which has more ranks than devices otherwise.
  const int turns = (ranks + cluster.device_count() - 1) / cluster.device_count();
  std::vector<int> free(cluster.device_count(), std::max(turns, 1));
  for (const Need need : {Need::kType, Need::kKind, Need::kAny})
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (needs[rank] != need) continue;
      DeviceId best = -1;
      for (DeviceId device = 0; device < cluster.device_count(); ++device)
        if (free[device] > 0 && can_have(cluster.type(device), hardware[rank]) &&
            (best < 0 || free[device] > free[best]))
          best = device;
      if (best < 0) refuse_hardware(cluster, hardware, hardware[rank]);
      --free[best];
      deployment.device_of_rank[rank] = best;
    }
  return deployment;
}

Deployment identity_mapping(const Cluster& cluster, int ranks) {
  const bool is_of_cores =
      cluster.groups().size() == 1 && cluster.type(0).kind == HardwareKind::kCpu;
  if (ranks > cluster.device_count() && !is_of_cores)
    throw UserError("the plan has " + counted(ranks, "rank") + " and the cluster " +
                        counted(cluster.device_count(), "device"),
                    "each rank has a device of its own",
                    "use a plan of at most " + counted(cluster.device_count(), "rank") +
                        ", or a larger cluster",
                    ExitCode::kBadConfig);
  Deployment deployment{&cluster, std::vector<DeviceId>(ranks)};
  for (Rank rank = 0; rank < ranks; ++rank)
    deployment.device_of_rank[rank] = rank % cluster.device_count();
  return deployment;
}

Deployment on_named_devices(const Cluster& cluster, const std::vector<std::string>& names) {
  std::map<std::string, DeviceId> devices;
  for (DeviceId device = 0; device < cluster.device_count(); ++device)
    devices.emplace(cluster.name(device), device);
  Deployment deployment{&cluster, {}};
  for (const std::string& name : names) {
    const auto found = devices.find(name);
    if (found == devices.end())
      throw UserError("the mapping of ranks names device '" + name + "', which the cluster lacks",
                      "its devices are '" + cluster.name(0) + "' to '" +
                          cluster.name(cluster.device_count() - 1) + "'",
                      "map the ranks anew with --map-ranks, or remove 'mapping' from the plan",
                      ExitCode::kBadConfig);
    deployment.device_of_rank.push_back(found->second);
  }
  return deployment;
}

void check_hardware(const Deployment& deployment, std::span<const std::string> hardware) {
  const Cluster& cluster = *deployment.cluster;
  for (Rank rank = 0; rank < std::ssize(hardware); ++rank)
    if (!can_have(deployment.type(rank), hardware[rank]))
      throw UserError("rank " + std::to_string(rank) + " needs '" + hardware[rank] +
                          "', and its device '" + cluster.name(deployment.device(rank)) + "' is " +
                          deployment.type(rank).name + " (" +
                          std::string(to_text(deployment.type(rank).kind)) + ")",
                      "the mapping of the plan gives the devices of the ranks",
                      "map the ranks anew with --map-ranks, or remove 'mapping' from the plan",
                      ExitCode::kBadConfig);
}

namespace {

/// Which level of the cluster joins two devices: 0 inside of a machine, 1 the first of the network.
int order_of(const Cluster& cluster, DeviceId a, DeviceId b) {
  if (cluster.machine(a) == cluster.machine(b)) return 0;
  const std::vector<NetworkLevel>& network = cluster.description().network;
  const auto found = std::ranges::find(network, cluster.level(a, b),
                                       [](const NetworkLevel& each) { return each.level.name; });
  return found == network.end() ? 1 : 1 + static_cast<int>(found - network.begin());
}

/// The devices of an axis of a mesh, group by group.
std::vector<std::vector<DeviceId>> groups_of(const Mesh& mesh, int axis,
                                             const Deployment& deployment) {
  std::vector<std::vector<DeviceId>> groups;
  for (int i = 0; i < mesh.size(); ++i) {
    Coordinate coordinate = mesh.coordinate_at(i);
    if (coordinate[axis] != 0) continue;
    std::vector<DeviceId>& group = groups.emplace_back();
    for (; coordinate[axis] < mesh.shape()[axis]; ++coordinate[axis])
      group.push_back(deployment.device(mesh.rank_at(coordinate)));
  }
  return groups;
}

/// The levels that join neighbours of a group, the outermost first, with their sizes. Empty where
/// they are not blocks of neighbours of one size, each in a machine of its own.
using Spans = std::vector<std::pair<int, int64_t>>;
Spans spans_of(const std::vector<DeviceId>& group, const Cluster& cluster) {
  std::vector<int> orders;
  for (size_t i = 0; i + 1 < group.size(); ++i)
    orders.push_back(order_of(cluster, group[i], group[i + 1]));
  Spans spans;
  int64_t inside = 1;  // ranks of a block that the levels so far join
  for (const int level : std::set<int>(orders.begin(), orders.end())) {
    int64_t block = 1;
    while (block < std::ssize(group) && orders[block - 1] <= level) ++block;
    for (int64_t i = 1; i < std::ssize(group); ++i)
      if ((i % block == 0) != (orders[i - 1] > level)) return {};
    if (std::ssize(group) % block != 0) return {};
    if (block > inside) spans.insert(spans.begin(), {level, block / inside});
    inside = block;
  }
  std::set<int> machines;
  for (const DeviceId device : group) machines.insert(cluster.machine(device));
  const int64_t in_machine = spans.empty() || spans.back().first > 0 ? 1 : spans.back().second;
  const bool enters_once = std::ssize(machines) * in_machine == std::ssize(group);
  return enters_once && spans.size() > 1 ? spans : Spans{};
}

/// The name of the axis of a level: "dp_ib".
std::string level_name(const std::string& axis, const std::vector<DeviceId>& group, int order,
                       const Cluster& cluster) {
  for (size_t i = 0; i + 1 < group.size(); ++i) {
    if (order_of(cluster, group[i], group[i + 1]) != order) continue;
    std::string name = axis + "_" + cluster.level(group[i], group[i + 1]);
    std::ranges::replace_if(
        name, [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
    return name;
  }
  throw InternalError("no neighbours are joined by a level of their axis");
}

/// LinkCosts::levels: of an axis with the same levels on all meshes that have it.
void find_levels(const Deployment& deployment, std::span<const MeshPtr> meshes, LinkCosts& links) {
  const Cluster& cluster = *deployment.cluster;
  if (cluster.machine_count() == 1) return;
  std::map<std::string, std::pair<Spans, std::vector<DeviceId>>> known;
  std::set<std::string> excluded;
  for (const MeshPtr& mesh : meshes)
    for (int axis = 0; axis < mesh->axis_count(); ++axis) {
      if (mesh->shape()[axis] == 1) continue;
      const std::string& name = mesh->axes()[axis];
      for (std::vector<DeviceId>& group : groups_of(*mesh, axis, deployment)) {
        Spans spans = spans_of(group, cluster);
        const auto [at, is_new] = known.try_emplace(name, std::move(spans), std::move(group));
        if (at->second.first.empty() || (!is_new && spans != at->second.first))
          excluded.insert(name);
      }
    }
  for (const auto& [name, found] : known) {
    if (excluded.contains(name)) continue;
    std::vector<AxisLevel>& levels = links.levels[name];
    for (const auto& [order, size] : found.first)
      levels.push_back({level_name(name, found.second, order, cluster), size});
  }
}

/// The link with which a ring over all ranks costs what gathers over one level after the other do:
/// over the outer levels a rank has the part that its inner ones divide.
LinkCost as_one_link(const std::vector<AxisLevel>& levels, const LinkCosts& links) {
  double ranks = 1, latency = 0, seconds_a_byte = 0, start = 0;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const LinkCost& link = links.on(level->name);
    const auto size = static_cast<double>(level->size);
    start += link.start.value();
    latency += (size - 1) * link.latency.value();
    seconds_a_byte += (size - 1) / size / ranks / link.bytes_per_second;
    ranks *= size;
  }
  return {Seconds(latency / (ranks - 1)), (ranks - 1) / ranks / seconds_a_byte, Seconds(start)};
}

/// The links of all axes of a mesh, each used as a ring.
void add_links(const Mesh& mesh, const Deployment& deployment, LinkCosts& links) {
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.shape()[axis] == 1) continue;
    Messages messages(deployment);
    add_rings(mesh, axis, messages);
    if (messages.empty()) continue;
    const LinkCost link = messages.slowest();
    const auto [at, is_new] = links.axes.emplace(mesh.axes()[axis], link);
    if (!is_new && is_slower(link, at->second)) at->second = link;
    if (is_slower(link, links.any)) links.any = link;
  }
}

}  // namespace

CostModel cost_of(const Deployment& deployment, std::span<const MeshPtr> meshes) {
  CostModel cost;
  cost.device = slowest_device(deployment);
  LinkCost& any = cost.links.any;
  any = {Seconds(0), std::numeric_limits<double>::infinity()};
  find_levels(deployment, meshes, cost.links);
  Meshes levelled;
  for (const MeshPtr& mesh : meshes) levelled.push_back({"", mesh});
  for (const NamedMesh& named : on_levels(levelled, cost.links))
    add_links(*named.mesh, deployment, cost.links);
  for (const auto& [axis, levels] : cost.links.levels)
    cost.links.axes[axis] = as_one_link(levels, cost.links);
  for (size_t i = 0; i + 1 < meshes.size(); ++i) {
    const LinkCost link = between(*meshes[i], *meshes[i + 1], deployment);
    if (is_slower(link, any)) any = link;
  }
  if (any.bytes_per_second == std::numeric_limits<double>::infinity()) any = LinkCost{};
  return cost;
}

}  // namespace tessera
