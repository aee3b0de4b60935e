#include "compiler/schedule/named_orders.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/tensor/split.h"
#include "base/text/text.h"
#include "compiler/schedule/internal/building_block.h"
#include "compiler/schedule/internal/stage_lists.h"

namespace tessera {
namespace {

DeviceOrders by_stage(PipelineKind kind, const PipelineShape& shape, int hidden) {
  const std::vector<int> to_end = distances_to_end(shape);
  std::vector<std::vector<Pass>> lists;
  for (int k = 0; k < std::ssize(shape.stages); ++k)
    lists.push_back(
        alternate(k, shape.micro_batches, warm_up(kind, shape.micro_batches, to_end[k], hidden)));
  return merge_stage_lists(shape, lists);
}

/// The periods that a transfer in each direction takes, at most as many as there are micro-batches:
/// a stage cannot be further ahead.
int hidden_periods(const PipelineShape& shape) {
  std::vector<double> busy(shape.devices, 0);
  for (const PipelineStage& stage : shape.stages)
    busy[stage.device] +=
        time_of(stage.costs, PassKind::kForward) + time_of(stage.costs, PassKind::kBackward);
  const double period = *std::max_element(busy.begin(), busy.end());
  if (period <= 0) return 0;
  const double periods = std::ceil(2 * shape.transfer / period - 1e-9);
  return static_cast<int>(std::min<double>(shape.micro_batches, periods));
}

/// A micro-batch on a device, in one of the rounds of the chain.
struct RoundPass {
  int round = 0;
  int micro_batch = 0;
};

/// The forwards of every device: groups of p micro-batches, or of some more when p does not divide
/// m, go through the rounds together. A group of less than p would return before the devices have
/// finished it.
std::vector<RoundPass> rounds_of(const PipelineShape& shape, const Chain& chain) {
  const int p = shape.devices, groups = std::max(1, shape.micro_batches / p);
  std::vector<RoundPass> passes;
  for (int group = 0; group < groups; ++group) {
    const Range group_range = balanced_part(shape.micro_batches, groups, group);
    for (int round = 0; round < chain.per_device; ++round)
      for (int64_t m = group_range.begin; m < group_range.end; ++m)
        passes.push_back({round, static_cast<int>(m)});
  }
  return passes;
}

DeviceOrders interleaved(const PipelineShape& shape, const Chain& chain) {
  const int p = shape.devices, v = chain.per_device;
  const std::vector<RoundPass> rounds = rounds_of(shape, chain);
  const int passes = shape.micro_batches * v;
  const auto largest = static_cast<int>(
      balanced_part(shape.micro_batches, std::max(1, shape.micro_batches / p), 0).size());
  DeviceOrders orders(p);
  for (int position = 0; position < p; ++position) {
    auto& order = orders[chain.devices[position]];
    const auto stage = [&](int round) { return chain.stages[round * p + position]; };
    const int ahead = std::min(passes, 2 * (p - position - 1) + (v - 1) * largest);
    for (int i = 0; i < passes + ahead; ++i) {
      if (i < passes) {
        const RoundPass& pass = rounds[i];
        order.push_back({PassKind::kForward, stage(pass.round), pass.micro_batch});
      }
      if (i >= ahead) {
        const RoundPass& pass = rounds[i - ahead];
        order.push_back({PassKind::kBackward, stage(v - 1 - pass.round), pass.micro_batch});
      }
    }
  }
  return orders;
}

BuildingBlock block_of(PipelineKind kind, int p) {
  switch (kind) {
    case PipelineKind::kZeroBubbleH1: return {{1}, {2}, p};
    case PipelineKind::kZeroBubbleH2: return {{2}, {4}, 2 * p - 1};
    case PipelineKind::kZeroBubbleV: return {{4, 2}, {2, 4}, 2 * p};
    case PipelineKind::kVHalf: return {{2, 1}, {1, 2}, (p + 2) / 2 * 2};
    case PipelineKind::kVMin: return {{1, 1}, {1, 1}, (p + 4) / 3 * 2};
    default: throw InternalError("the schedule has no building block");
  }
}

DeviceOrders from_block(PipelineKind kind, const PipelineShape& shape, const Chain& chain) {
  const DeviceOrders made =
      repeat_block(block_of(kind, shape.devices), shape.devices, shape.micro_batches);
  DeviceOrders orders(made.size());
  for (size_t position = 0; position < made.size(); ++position)
    for (Pass pass : made[position]) {
      pass.stage = chain.stages[pass.stage];
      orders[chain.devices[position]].push_back(pass);
    }
  return orders;
}

}  // namespace

const std::vector<PipelineFacts>& pipeline_schedules() {
  static const std::vector<PipelineFacts> schedules = {
      {PipelineKind::kForwardThenBackward, "f-then-b", false, "any stages"},
      {PipelineKind::kOneForwardOneBackward, "1f1b", false, "any stages"},
      {PipelineKind::kEagerOneForwardOneBackward, "eager-1f1b", false, "any stages"},
      {PipelineKind::kInterleaved, "interleaved", false,
       "stages one after the other, on the ranks in turn: stage k where stage k + p is"},
      {PipelineKind::kZeroBubbleH1, "zb-h1", true,
       "stages one after the other, each on ranks of its own"},
      {PipelineKind::kZeroBubbleH2, "zb-h2", true,
       "stages one after the other, each on ranks of its own"},
      {PipelineKind::kZeroBubbleV, "zb-v", true,
       "stages one after the other, two on the same ranks, in a V: the first where the last "
       "is"},
      {PipelineKind::kVHalf, "v-half", true,
       "stages one after the other, two on the same ranks, in a V: the first where the last "
       "is"},
      {PipelineKind::kVMin, "v-min", true,
       "stages one after the other, two on the same ranks, in a V: the first where the last "
       "is"},
      {PipelineKind::kAuto, "auto", true, "any stages"},
  };
  return schedules;
}

const PipelineFacts& facts_of(PipelineKind kind) {
  return pipeline_schedules()[static_cast<size_t>(kind)];
}

std::string_view to_text(PipelineKind kind) {
  return facts_of(kind).name;
}

PipelineKind parse_pipeline_kind(std::string_view text) {
  std::vector<std::string> names;
  for (const PipelineFacts& facts : pipeline_schedules()) {
    if (text == facts.name) return facts.kind;
    names.emplace_back(facts.name);
  }
  const std::string near = nearest(text, names);
  throw UserError(
      "'" + std::string(text) + "' is not a schedule", "the schedules are " + join(names, ", "),
      near.empty() ? "use one of these" : "did you mean '" + near + "'?", ExitCode::kBadConfig);
}

int warm_up(PipelineKind kind, int micro_batches, int to_end, int hidden) {
  switch (kind) {
    case PipelineKind::kForwardThenBackward: return micro_batches;
    case PipelineKind::kOneForwardOneBackward: return std::min(micro_batches, to_end);
    case PipelineKind::kEagerOneForwardOneBackward:
      return std::min(micro_batches, 1 + (to_end - 1) * (1 + hidden));
    default: throw InternalError("the schedule has no warm-up of each stage");
  }
}

std::string invalid_reason(PipelineKind kind, const PipelineShape& shape) {
  if (facts_of(kind).wants == "any stages") return "";
  const Chain chain = find_chain(shape);
  if (chain.stages.empty()) return "the stages do not follow one after the other";
  const bool v = kind == PipelineKind::kZeroBubbleV || kind == PipelineKind::kVHalf ||
                 kind == PipelineKind::kVMin;
  if (v) return chain.v_shaped ? "" : "the stages are not placed in a V";
  if (!chain.round_robin) return "the stages are not placed on the ranks in turn";
  return kind == PipelineKind::kInterleaved || chain.per_device == 1
             ? ""
             : "several stages are on the same ranks";
}

DeviceOrders named_orders(PipelineKind kind, const PipelineShape& shape) {
  ensure(invalid_reason(kind, shape).empty() && kind != PipelineKind::kAuto,
         "a schedule is made for stages that it takes");
  if (facts_of(kind).wants == "any stages") return by_stage(kind, shape, hidden_periods(shape));
  const Chain chain = find_chain(shape);
  return kind == PipelineKind::kInterleaved ? interleaved(shape, chain)
                                            : from_block(kind, shape, chain);
}

}  // namespace tessera
