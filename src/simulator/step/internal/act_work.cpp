#include "simulator/step/internal/act_work.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera {
namespace {

/// Beside the launch.
Seconds time_of(const KernelWork& kernel, const DeviceCost& device, const RuntimeProfile& runtime) {
  const auto bytes = static_cast<double>(kernel.work.bytes().value());
  if (kernel.is_fused) return Seconds(bytes / device.memory_rate(OperationClass::kElementwise));
  const Seconds work =
      std::max(Seconds(0), compute_price(kernel.work, device).estimate -
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
  sum.time += Seconds(static_cast<double>(launches(kernels)) * runtime.gap.value());
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
  demand.fixed = std::llround(exchange.start * static_cast<double>(demand.fixed + start));
  return demand;
}

Seconds flow_time(const ActDemand& demand, const Cluster& cluster) {
  std::map<ResourceId, double> amounts;
  double longest = 0;
  for (const Flow& flow : demand.flows)
    for (const ResourceUse& use : flow.uses) {
      double& amount = amounts[use.resource];
      amount += static_cast<double>(flow.amount);
      const Channel& channel = cluster.channels()[use.resource.value()];
      longest = std::max(longest, amount / channel.bytes_per_second);
    }
  return Seconds(longest);
}

int64_t launches(std::span<const KernelWork> kernels) {
  int64_t count = 0;
  for (const KernelWork& kernel : kernels) count += kernel.launches;
  return count;
}

Seconds host_wait(const PassWork& pass, const Cluster& cluster) {
  const RuntimeProfile& runtime = cluster.description().runtime;
  const DeviceCost& device = cluster.type(pass.device).cost;
  double on_device = 0, count = 0;
  for (const PassWork::Kernels& each : pass.kernels) {
    const auto tasks = static_cast<double>(each.tasks);
    on_device += tasks * price_of(each.kernels, device, runtime).time.value();
    count += tasks * static_cast<double>(launches(each.kernels));
  }
  for (const PassWork::Exchange& each : pass.exchanges) {
    const ActDemand demand = demand_of(each.exchange, cluster);
    const auto tasks = static_cast<double>(each.tasks);
    on_device +=
        tasks * (1e-9 * static_cast<double>(demand.fixed) + flow_time(demand, cluster).value() +
                 copy_price(each.exchange.copied, 1, device).estimate.value());
  }
  const double wait = count * runtime.host.value() - on_device;
  return Seconds(count > 0 ? std::max(0.0, wait) / count : 0);
}

}  // namespace tessera
