#include <algorithm>

#include "base/error.h"
#include "cluster/cluster/description.h"

namespace tessera {
namespace {

/// DeviceCost::fused: bytes that fused kernels move, as a part of those of the single ones, in the
/// steps of GPT and Llama.
double fused_share(Fusion fusion) {
  switch (fusion) {
    case Fusion::kNone: return 1;
    case Fusion::kLayers: return 0.22;
    case Fusion::kAll: return 0.18;
  }
  throw InternalError("unknown fusion");
}

bool is_our_own(RuntimeProfile profile) {
  profile.source.clear();
  return profile == RuntimeProfile{};
}

void multiply(std::optional<double>& rate, double part) {
  if (rate) *rate *= part;
}

void reach(DeviceCost& cost, double sustained, const Reach& parts) {
  for (const OperationClass operation :
       {OperationClass::kMatmul, OperationClass::kConvolution, OperationClass::kAttention}) {
    ClassRates& rates = cost.classes[operation];
    const double part = sustained * parts.products *
                        (operation == OperationClass::kAttention ? parts.attention : 1);
    if (!rates.flops_per_second) rates.flops_per_second = cost.flops_per_second;
    multiply(rates.flops_per_second, part);
    for (auto& [dtype, rate] : rates.flops_per_second_of) rate *= part;
  }
  if (parts.half_extent > 0) cost.classes[OperationClass::kMatmul].half_extent = parts.half_extent;
  cost.bytes_per_second *= parts.memory;
  cost.copied_bytes_per_second *= parts.memory;
  for (auto& [operation, rates] : cost.classes) {
    multiply(rates.bytes_per_second, parts.memory);
    multiply(rates.copied_bytes_per_second, parts.memory);
    for (SizeCurve::Point& point : rates.bytes_per_second_at.points) point.value *= parts.memory;
  }
}

void reach(LinkCost& link, const LinkReach& parts) {
  link.bytes_per_second *= parts.bandwidth;
  if (parts.start == Seconds(0) && parts.hop == Seconds(0)) return;
  link.start = parts.start;
  link.latency = parts.hop;
}

}  // namespace

ClusterDescription on_runtime(ClusterDescription description, RuntimeProfile profile) {
  if (is_our_own(profile)) {
    description.runtime = std::move(profile);
    return description;
  }
  bool has_devices = false;
  for (DeviceType& type : description.types) {
    if (type.kind == HardwareKind::kCpu) continue;
    has_devices = true;
    type.cost.fused = fused_share(profile.fusion);
    if (profile.libraries > Bytes(0)) type.reserve = profile.libraries;
    reach(type.cost, type.sustained, profile.reach);
    type.sustained = 1;
  }
  if (has_devices) {
    for (MachineGroup& machine : description.machines) {
      for (InnerLevel& inner : machine.levels) reach(inner.level.link, profile.reach.inside);
      for (DirectLink& direct : machine.direct) reach(direct.link, profile.reach.inside);
      if (machine.network) machine.network->bytes_per_second *= profile.reach.network.bandwidth;
    }
    for (NetworkLevel& network : description.network)
      reach(network.level.link, profile.reach.network);
    for (DirectLink& direct : description.direct) reach(direct.link, profile.reach.network);
  }
  profile.reach = {};
  description.runtime = std::move(profile);
  return description;
}

ClusterDescription on_usual_runtime(ClusterDescription description) {
  const bool is_named = !(description.runtime == RuntimeProfile{});
  const bool has_cpus = std::ranges::any_of(
      description.types, [](const DeviceType& type) { return type.kind == HardwareKind::kCpu; });
  if (is_named || has_cpus) return description;
  return on_runtime(std::move(description), *find_runtime_profile("torch-compile"));
}

}  // namespace tessera
