#include "planner/pipeline/internal/divided_model.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "ir/graph/classes.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "planner/placement/reshard_prices.h"
#include "sharding/propagation/kernel_price.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

bool is_by_micro_batch(const DistAttr& attr) {
  return attr.uses(kMicroBatchAxisIndex);
}

/// Ranks with the largest parts: one for each kind of device.
std::vector<PricedRank> slowest_ranks(const StageRanks& ranks, const Mesh& mesh) {
  std::vector<PricedRank> priced;
  for (const DeviceCost& device : ranks.devices)
    if (!std::ranges::count(priced, device, &PricedRank::device))
      priced.push_back({mesh.largest_shard_coordinate(), device});
  if (priced.empty()) priced.push_back({mesh.largest_shard_coordinate(), ranks.cost.device});
  return priced;
}

/// Of the addition of one micro-batch, on the slowest rank.
double seconds_of_sum(const TensorType& type, const MicroBatchPlacement& placed,
                      const std::vector<PricedRank>& ranks) {
  const MeshPtr& mesh = placed.attr.mesh;
  const TensorType local{type.dtype,
                         placed.attr.local_shape(type.shape, mesh->largest_shard_coordinate())};
  const LocalWork work =
      work_of({accumulating_kernel(placed.reduce), {}, {}, "", {local, local}, {local}});
  double seconds = 0;
  for (const PricedRank& rank : ranks)
    seconds = std::max(seconds, compute_price(work, rank.device).estimate.value());
  return seconds;
}

/// What a stage has of all its units.
constexpr double UnitCost::* kSummed[] = {
    &UnitCost::forward, &UnitCost::input_gradient, &UnitCost::weight_gradient,
    &UnitCost::once,    &UnitCost::joined,         &UnitCost::variables,
    &UnitCost::sums,    &UnitCost::kept,           &UnitCost::late};

std::vector<int> units_of(const LayerSequence& sequence, const Graph& serial, const Graph& graph) {
  std::vector<int> units;
  for (const int original : ops_by_name(serial, graph))
    units.push_back(sequence.unit_of_op[original]);
  return units;
}

}  // namespace

StageSums::Largest::Largest(std::vector<double> numbers) : rows_{std::move(numbers)} {
  for (int64_t width = 2; width <= std::ssize(rows_.front()); width *= 2) {
    const std::vector<double>& halves = rows_.back();
    std::vector<double> row;
    for (int64_t i = 0; i + width <= std::ssize(rows_.front()); ++i)
      row.push_back(std::max(halves[i], halves[i + width / 2]));
    rows_.push_back(std::move(row));
  }
}

double StageSums::Largest::max(int first, int end) const {
  const int exponent = std::bit_width(static_cast<unsigned>(end - first)) - 1;
  const std::vector<double>& row = rows_[exponent];
  return std::max(row[first], row[end - (1 << exponent)]);
}

StageSums::StageSums(const std::vector<UnitCost>& units)
    : before_(sums_of(units)), passing_(passing_of(units)), updating_([&units] {
        std::vector<double> numbers;
        for (const UnitCost& unit : units) numbers.push_back(unit.updating);
        return numbers;
      }()) {
  for (const UnitCost& unit : units) arriving_.push_back(unit.arriving);
}

std::vector<UnitCost> StageSums::sums_of(const std::vector<UnitCost>& units) {
  std::vector<UnitCost> before{{}};
  for (const UnitCost& unit : units) {
    UnitCost sum = before.back();
    for (double UnitCost::* each : kSummed) sum.*each += unit.*each;
    before.push_back(sum);
  }
  return before;
}

/// Beside all that is kept of the units before it and of its own.
std::vector<double> StageSums::passing_of(const std::vector<UnitCost>& units) const {
  std::vector<double> numbers;
  for (size_t unit = 0; unit < units.size(); ++unit)
    numbers.push_back(units[unit].passing + before_[unit + 1].kept);
  return numbers;
}

UnitCost StageSums::sum(int first, int end) const {
  UnitCost cost;
  for (double UnitCost::* each : kSummed) cost.*each = before_[end].*each - before_[first].*each;
  cost.passing = std::max(0.0, passing_.max(first, end) - before_[end].kept);
  cost.updating = updating_.max(first, end);
  cost.kept += arriving_[first];
  return cost;
}

DividedModel::DividedModel(const Graph& graph, ShardedGraph sharded, const Graph& serial,
                           const LayerSequence& sequence)
    : graph_(graph),
      sharded_(std::move(sharded)),
      sequence_(sequence),
      units_(units_of(sequence, serial, graph)) {
  find_parts();
  find_joined();
  add_kernels();
  add_reshards();
  registers_.emplace(graph_, *sharded_,
                     StepOps{units_, parts_, kernel_of_, kernels_, sequence.units()});
  add_divided();
  for (const OpId op : kernels_)
    kernel_shardings_.push_back({sharded_->at(op), sharded_->rules[op.index]});
  sharded_.reset();  // of a large model hundreds of megabytes
  copies_.clear();
}

void DividedModel::find_parts() {
  const std::vector<bool> is_late = weight_gradients(graph_, units_);
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const Role role = graph_.op({i}).role;
    if (!sharded_->at(OpId{i}).uses(kMicroBatchAxisIndex) || role == Role::kOptimizer)
      parts_.push_back(StepPart::kOnce);
    else if (role == Role::kForward)
      parts_.push_back(StepPart::kForward);
    else
      parts_.push_back(is_late[i] ? StepPart::kWeightGradient : StepPart::kInputGradient);
  }
}

void DividedModel::find_joined() {
  struct Span {
    int first = std::numeric_limits<int>::max(), last = -1;
    void add(const Span& other) {
      first = std::min(first, other.first);
      last = std::max(last, other.last);
    }
  };
  const auto ops = static_cast<int>(std::ssize(graph_.ops()));
  std::vector<Span> spans(ops);  // of the units whose gradients an op of the optimizer reads
  Span all;
  for (int i = 0; i < ops; ++i) {
    const Op& op = graph_.op({i});
    if (op.role != Role::kOptimizer) continue;
    for (const ValueId input : op.inputs) {
      const OpId producer = graph_.value(input).producer;
      if (producer.index < 0) continue;
      const int unit = unit_of(producer);
      spans[i].add(graph_.op(producer).role == Role::kOptimizer ? spans[producer.index]
                                                                : Span{unit, unit});
    }
    all.add(spans[i]);
  }
  for (const Span& span : spans)
    is_joined_.push_back(all.first < all.last && span.first == all.first && span.last == all.last);
}

void DividedModel::add_kernels() {
  const Classes classes = classes_of(graph_, 0);
  kernel_of_.assign(graph_.ops().size(), -1);
  std::map<OpClass, std::vector<int>> items;  // kernels of a class, in different shardings
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const OpId op{i};
    if (graph_.op(op).outputs.empty()) continue;
    std::vector<int>& known = items[classes.at(op)];
    auto found = std::ranges::find_if(
        known, [&](int item) { return sharded_->at(kernels_[item]) == sharded_->at(op); });
    if (found == known.end()) {
      kernels_.push_back(op);
      found = known.insert(known.end(), static_cast<int>(kernels_.size()) - 1);
    }
    kernel_of_[i] = *found;
    ++kernel_uses_[use_of(*found, op, part_of(op))];
  }
}

void DividedModel::add_reshards() {
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const OpId id{i};
    const Op& op = graph_.op(id);
    const OpView op_view = view(graph_, op);
    const ShardingRule& rule = sharded_->rules[id.index];
    for (int k = 0; k < std::ssize(op.inputs); ++k)
      add_reshard(id, op.inputs[k], sharded_->at(op.inputs[k]),
                  input_attr(op_view, rule, sharded_->at(id), k));
    for (int k = 0; k < std::ssize(op.outputs); ++k) {
      const DistAttr made = output_attr(op_view, rule, sharded_->at(id), k);
      add_reshard(id, op.outputs[k], made, sharded_->at(op.outputs[k]));
      add_sum(id, op.outputs[k], made);
    }
  }
}

void DividedModel::add_sum(OpId op, ValueId value, const DistAttr& made) {
  if (part_of(op) == StepPart::kOnce || !made.is_partial_on(kMicroBatchAxisIndex)) return;
  const DistAttr& owner = sharded_->at(value);
  const Sum sum{graph_.type(value), owner.is_partial_on(kMicroBatchAxisIndex) ? owner : made};
  auto found = std::ranges::find(sums_, sum);
  if (found == sums_.end()) found = sums_.insert(sums_.end(), sum);
  ++sum_uses_[use_of(static_cast<int>(found - sums_.begin()), op, part_of(op))];
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
  const StepPart part = is_by_micro_batch(to) ? part_of(op) : StepPart::kOnce;
  ++reshard_uses_[use_of(static_cast<int>(found - reshards_.begin()), op, part)];
}

void DividedModel::add_divided() {
  // A part of the rows of `timed` is a whole number of the units of `attr`.
  const auto add = [&](const TensorType& type, const DistAttr& timed, const DistAttr& attr) {
    for (int dim = 0; dim < std::ssize(timed.dims); ++dim)
      if (std::ranges::count(timed.dims[dim].axes, kMicroBatchAxisIndex) > 0)
        divided_.emplace(type.shape[dim], attr.dims[dim].unit * attr.dims[dim].chunks);
  };
  for (int i = 0; i < std::ssize(graph_.values()); ++i)
    add(graph_.type(ValueId{i}), sharded_->values[i], sharded_->values[i]);
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

std::vector<KernelDemand> DividedModel::kernel_demands(const MeshPtr& timed,
                                                       const std::vector<PricedRank>& ranks) const {
  const std::shared_ptr<const KernelSet> own = own_kernels(graph_);
  std::vector<KernelDemand> demands;
  for (OpId op : kernels_) {
    const auto& [of_op, rule] = kernel_shardings_[demands.size()];
    OpSharding sharding = of_op;
    sharding.mesh = timed;
    demands.push_back(kernel_demand(view(graph_, graph_.op(op)), rule, sharding, ranks, own.get()));
  }
  return demands;
}

std::vector<double> DividedModel::reshard_seconds(const StageRanks& ranks) const {
  std::vector<double> seconds;
  ReshardPrices prices(ranks.cost, AllReduceAlgorithm::kAuto);
  for (const Reshard& reshard : reshards_) {
    const MicroBatchPlacement to = micro_batch_placement(reshard.to, ranks.mesh);
    const TensorType part = of_one_micro_batch(reshard.type, to, ranks.micro_batches);
    DistAttr from = micro_batch_placement(reshard.from, ranks.mesh).attr;
    // Its windows may be those of the rows of all micro-batches, where `to` has the rows of one.
    for (int d = 0; d < part.shape.size(); ++d)
      if (auto& windows = from.dims[d].windows;
          !windows.empty() && windows.back().to != part.shape[d])
        windows.clear();
    const auto type = prices.type_index(part);
    seconds.push_back(
        prices
            .price(type, prices.placement_index(type, from), prices.placement_index(type, to.attr))
            .estimate.value());
  }
  return seconds;
}

std::vector<double> DividedModel::sum_seconds(const StageRanks& ranks,
                                              const std::vector<PricedRank>& priced) const {
  std::vector<double> seconds;
  const auto count = static_cast<double>(ranks.micro_batches);  // the first one is the sum
  for (const Sum& sum : sums_)
    seconds.push_back(
        (count - 1) / count *
        seconds_of_sum(sum.type, micro_batch_placement(sum.attr, ranks.mesh), priced));
  return seconds;
}

std::vector<UnitCost> DividedModel::costs(const StageRanks& ranks) const {
  std::vector<UnitCost> units(sequence_.units());
  const MeshPtr timed = with_micro_batches(one_mesh(ranks.mesh), ranks.micro_batches).front().mesh;
  const std::vector<PricedRank> priced = slowest_ranks(ranks, *timed);
  const auto add = [&](const Uses& uses, const std::vector<double>& seconds) {
    for (const auto& [use, count] : uses) {
      UnitCost& unit = units[use.unit];
      const double all = static_cast<double>(count) * seconds[use.item];
      if (use.part == StepPart::kOnce && use.is_joined) unit.joined += all;
      switch (use.part) {
        case StepPart::kForward: unit.forward += all; break;
        case StepPart::kInputGradient: unit.input_gradient += all; break;
        case StepPart::kWeightGradient: unit.weight_gradient += all; break;
        case StepPart::kOnce: unit.once += all; break;
      }
    }
  };
  std::vector<double> kernels;
  std::vector<Bytes> workspaces;
  for (const KernelDemand& demand : kernel_demands(timed, priced)) {
    kernels.push_back(demand.price.estimate.value());
    workspaces.push_back(demand.workspace);
  }
  add(kernel_uses_, kernels);
  add(reshard_uses_, reshard_seconds(ranks));
  add(sum_uses_, sum_seconds(ranks, priced));
  const std::vector<UnitBytes> bytes = registers_->bytes(timed, workspaces);
  for (int unit = 0; unit < sequence_.units(); ++unit) {
    units[unit].variables = bytes[unit].variables;
    units[unit].sums = bytes[unit].sums;
    units[unit].kept = bytes[unit].kept;
    units[unit].passing = bytes[unit].passing;
    units[unit].late = bytes[unit].late;
    units[unit].updating = bytes[unit].once;
    units[unit].arriving = bytes[unit].arriving;
  }
  return units;
}

}  // namespace tessera
