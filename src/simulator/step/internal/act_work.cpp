#include "simulator/step/internal/act_work.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

/// Beside the launch.
Seconds time_of(const KernelWork& kernel, const DeviceCost& device, const RuntimeProfile& runtime) {
  const auto bytes = static_cast<double>(kernel.work.bytes().value());
  if (kernel.is_fused) return Seconds(bytes / device.memory_rate(OperationClass::kElementwise));
  const Seconds work = std::max(
      Seconds(0), compute_price(kernel.work, device).estimate -
                      Seconds(device.launch_factor * device.launch.value()));
  if (kernel.scores == 0) return work;
  const double moved = kernel.passes * runtime.score_passes * kernel.scores *
                       static_cast<double>(size_of(DType::kF16));
  return work + Seconds(moved / device.memory_rate(OperationClass::kElementwise));
}

}  // namespace

KernelPrice price_of(std::span<const KernelWork> kernels, const DeviceCost& device,
                     const RuntimeProfile& runtime) {
  KernelPrice sum;
  for (const KernelWork& kernel : kernels)
    sum = sum + kernel.priced +
          KernelPrice{time_of(kernel, device, runtime), kernel.work.flops, kernel.work.padding};
  const auto count = static_cast<double>(kernels.size());
  sum.time = std::max(sum.time + Seconds(count * runtime.gap.value()),
                      Seconds(count * runtime.host.value()));
  return sum;
}

ActDemand demand_of(const ExchangeWork& exchange, const Cluster& cluster) {
  ActDemand demand;
  int64_t start = 0;
  for (const ExchangeWork::Message& message : exchange.messages) {
    const LinkCost link = cluster.link(message.from, exchange.to);
    start = std::max(start, nanoseconds(link.start));
    demand.fixed += nanoseconds(link.latency);
    Flow flow{message.bytes, {}};
    for (ChannelId channel : cluster.path(message.from, exchange.to))
      flow.uses.push_back({ResourceId(channel)});
    demand.flows.push_back(std::move(flow));
  }
  demand.fixed += start;
  return demand;
}

}  // namespace tessera
