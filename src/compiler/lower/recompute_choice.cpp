#include "compiler/lower/recompute_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/rewrite/cheapest_recompute.h"
#include "compiler/schedule/named_orders.h"
#include "ir/ops/operator_set.h"
#include "sharding/explicit/name_patterns.h"
#include "sharding/propagation/kernel_price.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

/// By mesh, a number that it has in common with those that share ranks with it, from 0.
std::vector<int> devices_of(const Meshes& meshes) {
  std::vector<int> devices;
  int count = 0;
  for (size_t i = 0; i < meshes.size(); ++i) {
    devices.push_back(count);
    for (size_t j = 0; j < i && devices[i] == count; ++j)
      if (share_ranks(*meshes[i].mesh, *meshes[j].mesh)) devices[i] = devices[j];
    if (devices[i] == count) ++count;
  }
  return devices;
}

/// The most micro-batches between their F and the end of their backward, by stage.
std::vector<int> in_flight(const DeviceOrders& orders, int stages) {
  std::vector<int> now(stages, 0), largest(stages, 0);
  for (const std::vector<Pass>& order : orders)
    for (const Pass& pass : order) {
      if (pass.kind == PassKind::kForward)
        largest[pass.stage] = std::max(largest[pass.stage], ++now[pass.stage]);
      if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kWeightGradient)
        --now[pass.stage];
    }
  return largest;
}

/// What the ranks of the plan hold and compute.
class RankNumbers {
 public:
  explicit RankNumbers(const RecomputeRequest& request)
      : request_(request), meshes_(request.plan.placed()), own_(own_kernels(request.graph)) {
    for (int stage = 0; stage < std::ssize(meshes_); ++stage)
      in_flight_.push_back(max_in_flight(request.plan, stage));
  }

  Bytes kept_bytes(ValueId value, int stage) const {
    TensorType type = request_.graph.type(value);
    DistAttr attr = request_.sharded.at(value);
    int64_t times = 1;
    if (const int64_t count = request_.plan.micro_batches; count > 1) {
      const MicroBatchPlacement time = placed_in_time(value, count);
      if (time.by_micro_batch) times = in_flight_[stage];
      type = of_one_micro_batch(type, time, count);
      attr = time.attr;
    }
    return Bytes(times * byte_size({type.dtype, attr.largest_shape(type.shape)}).value());
  }

  Seconds cost_of(OpId op) const {
    const ShardedGraph& sharded = request_.sharded;
    const OpSharding& sharding = sharded.at(op);
    return kernel_demand(view(request_.graph, request_.graph.op(op)), sharded.rules[op.index],
                         sharding, priced_ranks(*sharding.mesh, request_.plan.cost.device),
                         own_.get())
        .price.estimate;
  }

 private:
  /// In its canonical placement; or as its op makes it, where a mark divides the canonical
  /// placement by micro-batches that its rows have no equal parts for: no program has the value
  /// there.
  MicroBatchPlacement placed_in_time(ValueId value, int64_t count) const {
    const ShardedGraph& sharded = request_.sharded;
    const int owner = sharded.stages.values[value.index];
    const MicroBatchPlacement time = micro_batch_placement(sharded.at(value), meshes_[owner].mesh);
    const OpId producer = request_.graph.value(value).producer;
    if (time.dim < 0 || request_.graph.type(value).shape[time.dim] % count == 0 ||
        producer.index < 0)
      return time;
    const std::vector<ValueId>& results = request_.graph.op(producer).outputs;
    const auto index = static_cast<int>(std::ranges::find(results, value) - results.begin());
    const DistAttr made = output_attr(view(request_.graph, request_.graph.op(producer)),
                                      sharded.rules[producer.index], sharded.at(producer), index);
    return micro_batch_placement(made, meshes_[sharded.stages.ops[producer.index]].mesh);
  }

  const RecomputeRequest& request_;
  const Meshes meshes_;
  const std::shared_ptr<const KernelSet> own_;
  std::vector<int> in_flight_;  // by stage
};

/// Refuses a limit that no choice reaches.
void check_fits(const RecomputeRequest& request, const std::vector<int>& devices,
                const std::vector<Bytes>& kept) {
  const Bytes limit = request.plan.recompute.limit;
  for (size_t stage = 0; stage < devices.size(); ++stage) {
    const Bytes smallest = kept[devices[stage]];
    if (smallest <= limit) continue;
    const std::string where =
        devices.size() > 1 ? " of stage '" + request.plan.placed()[stage].name + "'" : "";
    throw UserError(
        fmt::format("a rank{} keeps at least {} of activations, and activation_mib allows {}",
                    where, to_text(smallest), to_text(limit)),
        "what later layers read is kept, and only what is inside of layers is computed again",
        fmt::format("set activation_mib to {} or more, or divide the batch by more micro_batches "
                    "or more ranks",
                    (smallest.value() + (1 << 20) - 1) >> 20),
        ExitCode::kNoPlan);
  }
}

}  // namespace

void check_decides_recompute(const Plan& plan) {
  if (!plan.shardings) return;
  throw UserError("plan '" + plan.name + "' has 'shardings' and recompute \"auto\"",
                  "shardings place what is computed again, too, so it is decided before",
                  "write the patterns of ops that recompute names, or marks in place of shardings",
                  ExitCode::kBadConfig);
}

int max_in_flight(const Plan& plan, int stage) {
  const auto count = static_cast<int>(plan.micro_batches);
  const Meshes meshes = plan.placed();
  const int stages = stage_count(meshes);
  stage = stage_of(meshes, stage);
  switch (plan.schedule) {
    case PipelineKind::kForwardThenBackward:
    case PipelineKind::kOneForwardOneBackward:
    case PipelineKind::kEagerOneForwardOneBackward:
      return std::min(count, warm_up(plan.schedule, count, stages - stage));
    case PipelineKind::kAuto: {
      const std::vector<int> devices = devices_of(meshes);
      const int all = *std::ranges::max_element(devices) + 1;
      return std::min<int>(count,
                           plan.max_in_flight > 0 ? static_cast<int>(plan.max_in_flight) : all);
    }
    default: break;
  }
  const int devices = std::ranges::max(devices_of(meshes)) + 1;
  if (stages % devices != 0) return count;
  const StagePlacement placement = plan.schedule == PipelineKind::kInterleaved || stages == devices
                                       ? StagePlacement::kRoundRobin
                                       : StagePlacement::kV;
  const PipelineShape shape = chain_of(devices, stages / devices, placement, count);
  if (!invalid_reason(plan.schedule, shape).empty()) return count;
  return in_flight(named_orders(plan.schedule, shape), stages)[stage];
}

RecomputeDecision decide_recompute(const RecomputeRequest& request) {
  const RankNumbers numbers(request);
  const Graph& graph = request.graph;
  RecomputeTerms terms{
      .stages = request.sharded.stages.ops,
      .devices = devices_of(request.plan.placed()),
      .kept_bytes = [&](ValueId value, int stage) { return numbers.kept_bytes(value, stage); },
      .limit = request.plan.recompute.limit,
      .solves_wide = request.solves_wide};
  terms.cost.assign(graph.ops().size(), Seconds(0));
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (graph.op({i}).role == Role::kForward) terms.cost[i] = numbers.cost_of({i});
  const RecomputeChoice choice = cheapest_recompute(graph, terms);
  RecomputeDecision decision;
  decision.is_made = choice.is_made;
  if (!choice.is_made) return decision;
  check_fits(request, terms.devices, choice.kept);
  std::vector<std::string> names;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (choice.ops[i]) names.push_back(graph.op({i}).name);
  for (int device : terms.devices) decision.kept.push_back(choice.kept[device]);
  if (!names.empty()) {
    decision.recompute.kind = Recompute::Kind::kPatterns;
    decision.recompute.patterns = to_patterns(names);
  }
  return decision;
}

}  // namespace tessera
