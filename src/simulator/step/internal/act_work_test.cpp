#include "simulator/step/internal/act_work.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "simulator/step/testing/plain_devices.h"

namespace tessera {
namespace {

DeviceCost plain_device() {
  DeviceCost device;
  device.flops_per_second = 1e12;
  device.bytes_per_second = 1e9;
  device.launch = Seconds(0);
  return device;
}

KernelWork fused_kernel(int64_t bytes) {
  KernelWork kernel{.is_fused = true};
  kernel.work.read = Bytes(bytes);
  return kernel;
}

TEST(ActWork, AFusedKernelTakesTheTimeOfItsBytesAndAGap) {
  RuntimeProfile runtime;
  runtime.gap = Seconds(1e-6);
  const std::vector<KernelWork> kernels{fused_kernel(1'000'000), fused_kernel(3'000'000)};
  EXPECT_NEAR(price_of(kernels, plain_device(), runtime).time.value(), 4e-3 + 2e-6, 1e-12);
}

TEST(ActWork, APartOfAKernelOverAListHasNoGap) {
  RuntimeProfile runtime;
  runtime.gap = Seconds(1e-6);
  std::vector<KernelWork> kernels{fused_kernel(1'000'000)};
  kernels.front().launches = 0;
  EXPECT_NEAR(price_of(kernels, plain_device(), runtime).time.value(), 1e-3, 1e-12);
}

// 1000 scores, twice 4 passes of two bytes each: 16,000 bytes beside the products.
TEST(ActWork, ScoresInMemoryTakeTheirPasses) {
  RuntimeProfile runtime;
  runtime.score_passes = 4;
  KernelWork kernel{.scores = 1000, .passes = 2};
  kernel.work.operation = OperationClass::kMatmul;
  kernel.work.flops = Flops(1e9);
  EXPECT_NEAR(price_of(std::span(&kernel, 1), plain_device(), runtime).time.value(), 1e-3 + 16e-6,
              1e-12);
}

/// One pass of two kernels of 1 ms each on a device of plain_devices, whose memory has 1 TB/s.
PassWork pass_of_two() {
  PassWork pass;
  pass.kernels.push_back({{fused_kernel(1'000'000'000)}, 2});
  return pass;
}

Cluster on_host(Seconds host) {
  ClusterDescription description = plain_devices(2).description();
  description.runtime.host = host;
  description.types[0].cost.bytes_per_second = 1e12;
  return Cluster(std::move(description));
}

TEST(HostWait, IsNothingWhereTheDeviceTakesLonger) {
  EXPECT_EQ(host_wait(pass_of_two(), on_host(Seconds(0.9e-3))), Seconds(0));
}

TEST(HostWait, IsWhatTheHostTakesLongerForEachKernel) {
  EXPECT_NEAR(host_wait(pass_of_two(), on_host(Seconds(1.5e-3))).value(), 0.5e-3, 1e-9);
}

TEST(HostWait, TheHostRunsAheadOfExchangesToo) {
  PassWork pass = pass_of_two();
  const Cluster cluster = on_host(Seconds(1.5e-3));
  ExchangeWork exchange{.to = 0, .messages = {{1, 100'000'000}}};
  const double moved = flow_time(demand_of(exchange, cluster), cluster).value();
  ASSERT_GT(moved, 1e-3);
  pass.exchanges.push_back({exchange, 1});
  EXPECT_EQ(host_wait(pass, cluster), Seconds(0));
}

}  // namespace
}  // namespace tessera
