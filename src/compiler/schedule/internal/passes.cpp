#include "compiler/schedule/internal/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

int device_of(StagePlacement placement, int devices, int stage) {
  return placement == StagePlacement::kV ? std::min(stage, 2 * devices - 1 - stage)
                                         : stage % devices;
}

bool has_need(const PipelineStage& stage, PassKind kind, PassNeed need) {
  const auto& needs = stage.needs_of(kind);
  return std::find(needs.begin(), needs.end(), need) != needs.end();
}

/// The stages in the order in which each forward needs that of the previous one; empty when there
/// is no such order.
std::vector<int> forward_chain(const PipelineShape& shape) {
  const int count = shape.stage_count();
  std::vector<int> chain;
  std::vector<bool> placed(shape.stages.size(), false);
  while (std::ssize(chain) < count) {
    int next = -1;
    for (int k = 0; k < count; ++k) {
      if (placed[k]) continue;
      const auto& needs = shape.stages[k].needs_of(PassKind::kForward);
      const bool ready = std::all_of(needs.begin(), needs.end(), [&](const PassNeed& need) {
        return need.kind == PassKind::kForward && placed[need.stage];
      });
      if (!ready) continue;
      if (next >= 0) return {};  // two successors
      next = k;
    }
    if (next < 0 || (!chain.empty() && !has_need(shape.stages[next], PassKind::kForward,
                                                 {chain.back(), PassKind::kForward})))
      return {};
    placed[next] = true;
    chain.push_back(next);
  }
  return chain;
}

/// Does every backward need only passes that the chain executes before it?
bool backward_follows(const PipelineShape& shape, const std::vector<int>& chain) {
  std::vector<int> position(chain.size());
  for (int i = 0; i < std::ssize(chain); ++i) position[chain[i]] = i;
  for (size_t k = 0; k < shape.stages.size(); ++k)
    for (PassKind kind : {PassKind::kInputGradient, PassKind::kWeightGradient})
      for (const PassNeed& need : shape.stages[k].needs_of(kind)) {
        if (need.kind == PassKind::kForward) continue;
        const int distance = position[need.stage] - position[k];
        const bool own = distance == 0 && kind == PassKind::kWeightGradient;
        if (need.kind == PassKind::kWeightGradient || (distance <= 0 && !own)) return false;
      }
  return true;
}

void find_placement(const PipelineShape& shape, Chain& chain) {
  const int count = shape.stage_count();
  if (count % shape.devices != 0) return;
  chain.per_device = count / shape.devices;
  const auto device_at = [&](int position) { return shape.stages[chain.stages[position]].device; };
  for (int i = 0; i < shape.devices; ++i) chain.devices.push_back(device_at(i));
  std::vector<int> sorted = chain.devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return;
  const auto is_placed = [&](StagePlacement placement) {
    for (int i = 0; i < count; ++i)
      if (device_at(i) != chain.devices[device_of(placement, shape.devices, i)]) return false;
    return true;
  };
  chain.round_robin = is_placed(StagePlacement::kRoundRobin);
  chain.v_shaped = chain.per_device == 2 && is_placed(StagePlacement::kV);
}

}  // namespace

std::string to_text(const Pass& pass) {
  return fmt::format("{}{}.{}", to_text(pass.kind), pass.stage, pass.micro_batch);
}

std::string to_text(const std::vector<Pass>& order) {
  std::vector<std::string> texts;
  for (const Pass& pass : order) texts.push_back(to_text(pass));
  return join(texts, " ");
}

double time_of(const StageCosts& costs, PassKind kind) {
  switch (kind) {
    case PassKind::kForward: return costs.forward;
    case PassKind::kInputGradient: return costs.input_gradient;
    case PassKind::kWeightGradient: return costs.weight_gradient;
    case PassKind::kBackward: return costs.input_gradient + costs.weight_gradient;
  }
  throw InternalError("unknown kind of pass");
}

double memory_of(const StageCosts& costs, PassKind kind) {
  switch (kind) {
    case PassKind::kForward: return costs.kept;
    case PassKind::kInputGradient: return -costs.freed_early;
    case PassKind::kWeightGradient: return costs.freed_early - costs.kept;
    case PassKind::kBackward: return -costs.kept;
  }
  throw InternalError("unknown kind of pass");
}

PipelineShape chain_of(int devices, int per_device, StagePlacement placement, int micro_batches,
                       const StageCosts& costs) {
  ensure(devices >= 1 && per_device >= 1 && micro_batches >= 1,
         "a pipeline has devices, stages and micro-batches");
  ensure(placement != StagePlacement::kV || per_device == 2, "a V has two stages a device");
  PipelineShape shape;
  shape.devices = devices;
  shape.micro_batches = micro_batches;
  const double part = 1.0 / per_device;
  const int count = devices * per_device;
  for (int k = 0; k < count; ++k) {
    PipelineStage stage;
    stage.device = device_of(placement, devices, k);
    stage.costs = {costs.forward * part, costs.input_gradient * part, costs.weight_gradient * part,
                   costs.kept * part, costs.freed_early * part};
    if (k > 0) stage.needs[0].push_back({k - 1, PassKind::kForward});
    stage.needs[1].push_back({k, PassKind::kForward});
    if (k + 1 < count) stage.needs[1].push_back({k + 1, PassKind::kInputGradient});
    stage.needs[2].push_back({k, PassKind::kInputGradient});
    shape.stages.push_back(std::move(stage));
  }
  return shape;
}

Chain find_chain(const PipelineShape& shape) {
  Chain chain;
  chain.stages = forward_chain(shape);
  if (chain.stages.empty() || !backward_follows(shape, chain.stages)) return {};
  find_placement(shape, chain);
  return chain;
}

namespace {

/// The fault of the order of one device, and the number of passes of each stage.
std::string fault_of(const PipelineShape& shape, int device, const std::vector<Pass>& order,
                     std::vector<std::array<int, 3>>& done) {
  double memory = 0;
  for (const Pass& pass : order) {
    const auto fault = [&](std::string_view what) {
      return fmt::format("{} on device {} {}", to_text(pass), device, what);
    };
    if (pass.stage < 0 || pass.stage >= shape.stage_count()) return fault("is of no stage");
    const PipelineStage& stage = shape.stages[pass.stage];
    if (stage.device != device) return fault(fmt::format("belongs on device {}", stage.device));
    auto& counts = done[pass.stage];
    const auto is_next = [&](PassKind kind) {
      return counts[index_of(kind)]++ == pass.micro_batch;
    };
    const bool whole = pass.kind == PassKind::kBackward;
    const bool in_order =
        whole ? is_next(PassKind::kInputGradient) && is_next(PassKind::kWeightGradient)
              : is_next(pass.kind);
    if (!in_order) return fault("is not the next of its kind");
    memory += memory_of(stage.costs, pass.kind);
    if (!shape.memory_limits.empty() && memory > shape.memory_limits[device] + kPassSlack)
      return fault(fmt::format("keeps {} of {}", memory, shape.memory_limits[device]));
  }
  return "";
}

}  // namespace

std::string first_fault(const PipelineShape& shape, const DeviceOrders& orders) {
  if (std::ssize(orders) != shape.devices) return "there is not one order a device";
  std::vector<std::array<int, 3>> done(shape.stages.size());
  for (int d = 0; d < shape.devices; ++d)
    if (std::string fault = fault_of(shape, d, orders[d], done); !fault.empty()) return fault;
  for (size_t k = 0; k < done.size(); ++k)
    for (PassKind kind : {PassKind::kForward, PassKind::kInputGradient, PassKind::kWeightGradient})
      if (const int count = done[k][index_of(kind)]; count != shape.micro_batches)
        return fmt::format("stage {} has {} of {} {} passes", k, count, shape.micro_batches,
                           to_text(kind));
  return "";
}

}  // namespace tessera
