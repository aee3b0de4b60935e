#include "planner/pipeline/segment_costs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/threads/on_all_cores.h"
#include "compiler/plan/preset.h"

namespace tessera {
namespace {

/// The ranks among which the rows and positions of a value are divided.
double parts_of_activations(const Mesh& mesh) {
  double parts = 1;
  for (const std::string_view name : {kDataAxis, kSpaceAxis})
    if (const auto axis = mesh.find_axis(name)) parts *= static_cast<double>(mesh.shape()[*axis]);
  return parts;
}

double capacity_of(Rank first, int size, const Deployment& deployment) {
  double smallest = std::numeric_limits<double>::infinity();
  for (Rank rank = first; rank < first + size; ++rank) {
    const DeviceType& type = deployment.type(rank);
    smallest = std::min(smallest, static_cast<double>((type.memory - type.reserve).value()));
  }
  return smallest;
}

/// `size` ranks from `first` on.
std::vector<Rank> run_of(Rank first, int size) {
  std::vector<Rank> ranks(size);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

MeshPtr mesh_from(const Mesh& mesh, Rank first) {
  std::vector<Rank> ranks = mesh.ranks();
  for (Rank& rank : ranks) rank += first;
  return std::make_shared<const Mesh>(mesh.shape(), mesh.axes(), std::move(ranks), mesh.weights());
}

LinkCost link_between(const std::vector<Rank>& from, const std::vector<Rank>& to,
                      const Deployment& deployment) {
  std::vector<Rank> ranks = from;
  ranks.insert(ranks.end(), to.begin(), to.end());
  const auto mesh = std::make_shared<const Mesh>(Shape{2, std::ssize(from)},
                                                 std::vector<std::string>{"stage", "rank"}, ranks);
  return cost_of(deployment, std::vector<MeshPtr>{mesh}).links.axes.at("stage");
}

StageRanks stage_ranks(MeshPtr mesh, const Deployment& deployment, int64_t micro_batches) {
  StageRanks ranks{std::move(mesh), micro_batches, {}, {}};
  ranks.cost = cost_of(deployment, std::vector{ranks.mesh});
  for (Rank rank : ranks.mesh->ranks()) ranks.devices.push_back(deployment.type(rank).cost);
  ranks.cost.device = ranks.devices.front();
  return ranks;
}

SegmentCosts::SegmentCosts(const LayerSequence& sequence,
                           const std::vector<StageSharding>& stage_shardings,
                           const Deployment& deployment, const DeviceRuns& runs,
                           int64_t micro_batches)
    : sequence_(sequence),
      stage_shardings_(stage_shardings),
      deployment_(deployment),
      micro_batches_(micro_batches),
      stage_shardings_of_(runs.kinds()),
      sums_(runs.kinds()) {
  for (int kind = 0; kind < runs.kinds(); ++kind) {
    capacities_.push_back(capacity_of(runs.first_of(kind), runs.size_of(kind), deployment));
    sums_[kind].resize(stage_shardings.size());
    for (int stage_sharding = 0; stage_sharding < std::ssize(stage_shardings); ++stage_sharding)
      if (stage_shardings[stage_sharding].mesh->size() == runs.size_of(kind))
        stage_shardings_of_[kind].push_back(stage_sharding);
  }
  arrivals_.emplace_back();
  for (Rank rank = 1; rank < runs.ranks(); ++rank) {
    const DeviceId from = deployment.device(rank - 1), to = deployment.device(rank);
    const Cluster& cluster = *deployment.cluster;
    arrivals_.push_back({cluster.link(from, to), cluster.machine(from) != cluster.machine(to)});
  }
  add_machine_arrivals(runs);
  for (const StageSharding& stage_sharding : stage_shardings)
    parts_.push_back(parts_of_activations(*stage_sharding.mesh));
  on_all_cores(runs.kinds(), [&](int64_t kind) {
    for (int stage_sharding : stage_shardings_of_[kind]) {
      sums_[kind][stage_sharding].emplace(stage_shardings[stage_sharding].model->costs(stage_ranks(
          mesh_from(*stage_shardings[stage_sharding].mesh, runs.first_of(static_cast<int>(kind))),
          deployment, micro_batches)));
    }
  });
}

void SegmentCosts::add_machine_arrivals(const DeviceRuns& runs) {
  const auto machine = [&](Rank rank) {
    return deployment_.cluster->machine(deployment_.device(rank));
  };
  for (Rank first = 1; first < runs.ranks(); ++first)
    for (const int size : runs.sizes_at(first)) {
      if (first < size || machine(first) == machine(first + size - 1)) continue;
      machine_arrivals_.emplace(
          std::pair(first, size),
          link_between(run_of(first - size, size), run_of(first, size), deployment_));
    }
}

UnitCost SegmentCosts::price(int kind, int stage_sharding, int first, int end) const {
  return price(*sums_[kind][stage_sharding], stage_sharding, first, end);
}

UnitCost SegmentCosts::price(const StageSums& units, int stage_sharding, int first, int end) const {
  UnitCost cost = units.sum(first, end);
  if (micro_batches_ == 1) {
    // The gradients come while the results of the forward go.
    cost.variables -= cost.sums;
    cost.updating += cost.sums;
    return cost;
  }
  // The next micro-batch arrives from both neighbours while one runs.
  for (const int cut : {first, end})
    if (cut > 0 && cut < sequence_.units()) cost.passing += cut_bytes(stage_sharding, cut);
  return cost;
}

double SegmentCosts::cut_bytes(int stage_sharding, int unit) const {
  return static_cast<double>(sequence_.cut_bytes[unit].value()) /
         static_cast<double>(micro_batches_) / parts_[stage_sharding];
}

double SegmentCosts::transfer(int stage_sharding, int unit, Rank first) const {
  if (first == 0) return 0;
  const int size = stage_shardings_[stage_sharding].mesh->size();
  if (const auto found = machine_arrivals_.find({first, size}); found != machine_arrivals_.end())
    return transfer(stage_sharding, unit, found->second);
  LinkCost link = arrivals_[first].link;
  if (arrivals_[first].is_shared) link.bytes_per_second /= size;
  return transfer(stage_sharding, unit, link);
}

double SegmentCosts::transfer(int stage_sharding, int unit, Rank first, Rank from,
                              int from_size) const {
  const int size = stage_shardings_[stage_sharding].mesh->size();
  if (from == first) return 0;
  if (from + from_size == first) return transfer(stage_sharding, unit, first);
  if (from == first + size)
    return transfer(stage_sharding, unit, from);  // links have two equal directions
  return transfer(stage_sharding, unit, link(from, from_size, first, size));
}

double SegmentCosts::message(Bytes bytes, Rank from, int from_size, Rank to, int to_size) const {
  const LinkCost cost = link(from, from_size, to, to_size);
  return cost.latency.value() +
         static_cast<double>(bytes.value()) / to_size / cost.bytes_per_second;
}

LinkCost SegmentCosts::link(Rank from, int from_size, Rank first, int size) const {
  const Cluster& cluster = *deployment_.cluster;
  const DeviceId sender = deployment_.device(from + from_size - 1);
  const DeviceId receiver = deployment_.device(first);
  LinkCost cost = cluster.link(sender, receiver);
  if (cluster.machine(sender) == cluster.machine(receiver)) return cost;
  if (machine_arrivals_.contains({from, size}) && from_size == size)
    return link_between(run_of(from, size), run_of(first, size), deployment_);
  cost.bytes_per_second /= size;
  return cost;
}

double SegmentCosts::transfer(int stage_sharding, int unit, const LinkCost& link) const {
  if (unit == 0) return 0;
  return link.latency.value() + cut_bytes(stage_sharding, unit) / link.bytes_per_second;
}

}  // namespace tessera
