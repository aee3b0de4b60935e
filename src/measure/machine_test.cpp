#include "measure/machine.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/cluster_file.h"
#include "kernels/bind.h"
#include "measure/kernel_times.h"

namespace tessera {
namespace {

TEST(KernelGrid, HasSeveralSizesOfEveryClass) {
  std::map<OperationClass, std::set<double>> flops;
  for (const GridPoint& point : kernel_grid()) {
    const LocalWork work = work_of(point.call);
    flops[work.operation].insert(static_cast<double>(work.bytes().value()));
    EXPECT_NO_THROW(bind_kernel(point.call)) << point.call.kernel;
  }
  for (const OperationClassName& name : kOperationClasses)
    EXPECT_GE(flops[name.operation].size(), 3) << name.text;
}

TEST(RatesOfADevice, ReproduceTheTimesThatFollowFromThem) {
  // A device that needs 1 us for each kernel, computes 10 Gflop/s and moves 4 GB/s.
  DeviceCost device;
  device.flops_per_second = 1e10;
  device.bytes_per_second = 4e9;
  device.launch = Seconds(1e-6);
  std::vector<TimedPoint> times;
  for (const GridPoint& point : kernel_grid())
    times.push_back({point, compute_price(work_of(point.call), device).estimate});
  const DeviceCost found = rates_of(times);
  for (const TimedPoint& timed : times) {
    const double expected = timed.time.value();
    if (expected < 1e-5) continue;  // the launch is what the smallest kernel of a class takes
    // The grid is on the curves, but kernels whose sizes differ by less than a factor of 2 share a
    // point.
    EXPECT_NEAR(compute_price(work_of(timed.point.call), found).estimate.value() / expected, 1,
                0.01)
        << timed.point.call.kernel;
  }
}

TEST(KernelTimes, AreThoseOfTheKernel) {
  const TensorType small{DType::kF32, {64}}, large{DType::kF32, {1 << 20}};
  const auto add = [](const TensorType& type) {
    return time_of({"binary.add", {}, {}, "", {type, type}, {type}}, Seconds(0.002));
  };
  EXPECT_GT(add(small), Seconds(0));
  EXPECT_GT(add(large), add(small)) << "16,384 times the work";
}

}  // namespace
}  // namespace tessera
