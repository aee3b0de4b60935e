#include "stage_search/divided_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/classes.h"
#include "ops/operator_set.h"
#include "placement_search/kernel_price.h"
#include "placement_search/reshard_prices.h"
#include "shard/micro_batches.h"

namespace tessera {
namespace {

constexpr int kTime = 0;  // the axis of micro-batches

bool is_by_micro_batch(const DistAttr& attr) {
  return attr.uses(kTime);
}

DistAttr on(const MeshPtr& mesh, DistAttr attr) {
  attr.mesh = mesh;
  return attr;
}

/// Ranks with the largest parts: one for each kind of device.
std::vector<PricedRank> slowest_ranks(const StageRanks& ranks, const Mesh& mesh) {
  std::vector<PricedRank> priced;
  for (const DeviceCost& device : ranks.devices)
    if (!std::ranges::count(priced, device, &PricedRank::device))
      priced.push_back({mesh.heaviest(), device});
  if (priced.empty()) priced.push_back({mesh.heaviest(), ranks.cost.device});
  return priced;
}

double local_bytes(const TensorType& type, const DistAttr& attr) {
  return static_cast<double>(byte_size({type.dtype, attr.largest_shape(type.shape)}).value());
}

}  // namespace

UnitCost& UnitCost::operator+=(const UnitCost& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  once += other.once;
  variables += other.variables;
  kept += other.kept;
  passing = std::max(passing, other.passing);
  return *this;
}

UnitCost& UnitCost::operator-=(const UnitCost& other) {
  forward -= other.forward;
  input_gradient -= other.input_gradient;
  weight_gradient -= other.weight_gradient;
  once -= other.once;
  variables -= other.variables;
  kept -= other.kept;
  return *this;
}

DividedModel::DividedModel(const Graph& graph, ShardedGraph sharded, const Graph& serial,
                           const ModelLine& line)
    : graph_(graph),
      sharded_(std::move(sharded)),
      line_(line),
      originals_(ops_by_name(serial, graph)) {
  add_kernels();
  add_reshards();
  add_held(serial);
  add_divided();
}

DividedModel::Part DividedModel::part_of(OpId op) const {
  if (!sharded_.of(op).uses(kTime)) return Part::kOnce;
  switch (graph_.op(op).role) {
    case Role::kForward: return Part::kForward;
    case Role::kBackward:
      return line_.weight_gradient[originals_[op.index]] ? Part::kWeightGradient
                                                         : Part::kInputGradient;
    case Role::kOptimizer: return Part::kOnce;
  }
  return Part::kOnce;
}

void DividedModel::add_kernels() {
  const Classes classes = classes_of(graph_, 0);
  std::map<OpClass, std::vector<int>> items;  // kernels of a class, in unlike shardings
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const OpId op{i};
    if (graph_.op(op).outputs.empty()) continue;
    std::vector<int>& known = items[classes.of(op)];
    auto found = std::ranges::find_if(
        known, [&](int item) { return sharded_.of(kernels_[item]) == sharded_.of(op); });
    if (found == known.end()) {
      kernels_.push_back(op);
      found = known.insert(known.end(), static_cast<int>(kernels_.size()) - 1);
    }
    ++kernel_uses_[{*found, unit_of(op), part_of(op)}];
  }
}

void DividedModel::add_reshards() {
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const OpId id{i};
    const Op& op = graph_.op(id);
    const OpView op_view = view(graph_, op);
    const ShardingRule& rule = sharded_.rules[id.index];
    for (int k = 0; k < std::ssize(op.inputs); ++k)
      add_reshard(id, op.inputs[k], sharded_.of(op.inputs[k]),
                  input_attr(op_view, rule, sharded_.of(id), k));
    for (int k = 0; k < std::ssize(op.outputs); ++k)
      add_reshard(id, op.outputs[k], output_attr(op_view, rule, sharded_.of(id), k),
                  sharded_.of(op.outputs[k]));
  }
}

void DividedModel::add_reshard(OpId op, ValueId value, const DistAttr& from, const DistAttr& to) {
  if (from == to || graph_.type(value).shape.empty()) return;
  // Copies of a value in one placement are made once for all readers in a unit.
  std::vector<std::pair<DistAttr, int>>& made = copies_[value.index];
  if (std::ranges::count(made, std::pair(to, unit_of(op)))) return;
  made.emplace_back(to, unit_of(op));
  const Reshard reshard{graph_.type(value), from, to};
  auto found = std::ranges::find(reshards_, reshard);
  if (found == reshards_.end()) found = reshards_.insert(reshards_.end(), reshard);
  const Part part = is_by_micro_batch(to) ? part_of(op) : Part::kOnce;
  ++reshard_uses_[{static_cast<int>(found - reshards_.begin()), unit_of(op), part}];
}

void DividedModel::add_held(const Graph& serial) {
  for (const Variable& variable : graph_.variables()) {
    const Value& value = graph_.value(variable.value);
    const std::optional<ValueId> original = serial.find_value(value.name);
    if (!original) continue;
    const int unit = line_.unit_of_value[original->index];
    const int copies = variable.trainable ? 2 : 1;  // and its gradient
    for (int i = 0; i < copies; ++i)
      held_.push_back({value.type, sharded_.of(variable.value), unit, true});
  }
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const Value& value = graph_.value({i});
    if (value.producer.index < 0 || graph_.op(value.producer).role != Role::kForward) continue;
    const bool is_kept = std::ranges::any_of(
        value.users, [&](OpId user) { return graph_.op(user).role == Role::kBackward; });
    if (is_kept && is_by_micro_batch(sharded_.values[i]))
      held_.push_back({value.type, sharded_.values[i], unit_of(value.producer), false});
  }
}

void DividedModel::add_divided() {
  // A part of the rows of `timed` is a whole number of the units of `attr`.
  const auto add = [&](const TensorType& type, const DistAttr& timed, const DistAttr& attr) {
    for (int dim = 0; dim < std::ssize(timed.dims); ++dim)
      if (std::ranges::count(timed.dims[dim].axes, kTime) > 0)
        divided_.emplace(type.shape[dim], attr.dims[dim].unit * attr.dims[dim].chunks);
  };
  for (int i = 0; i < std::ssize(graph_.values()); ++i)
    add(graph_.type(ValueId{i}), sharded_.values[i], sharded_.values[i]);
  for (const Reshard& reshard : reshards_) {
    add(reshard.type, reshard.from, reshard.from);
    add(reshard.type, reshard.to, reshard.to);
    add(reshard.type, reshard.to, reshard.from);
  }
}

bool DividedModel::allows(int64_t micro_batches) const {
  return std::ranges::all_of(divided_, [&](const auto& entry) {
    const auto& [extent, unit] = entry;
    return extent % (micro_batches * unit) == 0;
  });
}

std::vector<UnitCost> DividedModel::costs(const StageRanks& ranks) const {
  std::vector<UnitCost> units(line_.units());
  const MeshPtr timed = with_micro_batches(one_mesh(ranks.mesh), ranks.micro_batches).front().mesh;
  const std::vector<PricedRank> priced = slowest_ranks(ranks, *timed);
  const std::shared_ptr<const KernelSet> own = own_kernels(graph_);
  std::vector<KernelDemand> kernels;
  for (OpId op : kernels_) {
    OpSharding sharding = sharded_.of(op);
    sharding.mesh = timed;
    kernels.push_back(kernel_demand(view(graph_, graph_.op(op)), sharded_.rules[op.index], sharding,
                                    priced, own.get()));
  }
  const auto add = [&](const Use& use, int64_t count, double seconds) {
    UnitCost& unit = units[use.unit];
    const double all = static_cast<double>(count) * seconds;
    switch (use.part) {
      case Part::kForward: unit.forward += all; break;
      case Part::kInputGradient: unit.input_gradient += all; break;
      case Part::kWeightGradient: unit.weight_gradient += all; break;
      case Part::kOnce: unit.once += all; break;
    }
  };
  for (const auto& [use, count] : kernel_uses_) {
    add(use, count, kernels[use.item].price.estimate.value());
    units[use.unit].passing =
        std::max(units[use.unit].passing, static_cast<double>(kernels[use.item].workspace.value()));
  }
  std::vector<double> reshards;
  ReshardPrices prices(ranks.cost, AllReduceAlgorithm::kAuto);
  for (const Reshard& reshard : reshards_) {
    const MicroBatchPlacement to = micro_batch_placement(reshard.to, ranks.mesh);
    const DistAttr from = micro_batch_placement(reshard.from, ranks.mesh).attr;
    const auto type = prices.type_index(of_one_micro_batch(reshard.type, to, ranks.micro_batches));
    reshards.push_back(
        prices
            .price(type, prices.placement_index(type, from), prices.placement_index(type, to.attr))
            .estimate.value());
  }
  for (const auto& [use, count] : reshard_uses_) add(use, count, reshards[use.item]);
  for (const Held& held : held_) {
    const double bytes = local_bytes(held.type, on(timed, held.attr));
    (held.is_variable ? units[held.unit].variables : units[held.unit].kept) += bytes;
  }
  return units;
}

}  // namespace tessera
