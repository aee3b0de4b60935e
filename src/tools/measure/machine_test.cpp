#include "tools/measure/machine.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/cluster/cluster_file.h"
#include "kernels/bind.h"
#include "tools/measure/kernel_times.h"

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

TEST(LeastSample, IsNotThatOfAClockThatStoodStillOrJumped) {
  const auto min_of = [](std::vector<double> samples) {
    std::vector<Seconds> times;
    for (double sample : samples) times.emplace_back(sample);
    return min_sample(times).value();
  };
  EXPECT_EQ(min_of({3e-6, 2e-6, 5e-6}), 2e-6);
  EXPECT_EQ(min_of({3e-6, 2e-6, 0}), 2e-6);
  EXPECT_EQ(min_of({3e-6, -2e-6, 5e-6}), 3e-6);
  EXPECT_EQ(min_of({0, 1e-3}), 1e-3);
  EXPECT_EQ(min_of({4e-6}), 4e-6);
}

/// The times of the grid on a device.
std::vector<TimedPoint> times_on(const DeviceCost& device) {
  std::vector<TimedPoint> times;
  for (const GridPoint& point : kernel_grid())
    times.push_back({point, compute_price(work_of(point.call), device).estimate});
  return times;
}

TEST(RatesOfADevice, ReproduceTheTimesThatFollowFromThem) {
  // Devices that need 0.1 us for each kernel, of which one is bound by its 10 Gflop/s and the other
  // by its 4 GB/s.
  const std::set<std::string> of_arithmetic{"dot_general", "attention", "unary.exp"},
      of_memory{"unary.exp", "binary.add", "select", "reduce.sum"};
  const auto expect_reproduced = [](double flops, double bytes,
                                    const std::set<std::string>& kernels) {
    DeviceCost device;
    device.flops_per_second = flops;
    device.bytes_per_second = bytes;
    device.launch = Seconds(1e-7);
    const std::vector<TimedPoint> times = times_on(device);
    const DeviceCost found = rates_of(times);
    for (const auto& [point, time] : times) {
      // The launch is what the smallest call of a kernel takes.
      if (time < Seconds(1e-5) || !kernels.contains(point.call.kernel)) continue;
      const Seconds price = compute_price(work_of(point.call), found).estimate;
      EXPECT_NEAR(price.value() / time.value(), 1, 0.05) << point.call.kernel;
    }
  };
  expect_reproduced(1e10, 1e18, of_arithmetic);
  expect_reproduced(1e18, 4e9, of_memory);
}

TEST(RatesOfADevice, AreThoseOfTheKernelAndItsPieces) {
  // Rows that are read at 1 GB/s from 1 kB on and at 0.25 GB/s up to 50 bytes.
  DeviceCost device;
  device.launch = Seconds(1e-7);
  device.kernels["reduce.sum"] = {.bytes_per_second_at = {{{50, 0.25e9}, {1000, 1e9}}}};
  const DeviceCost found = rates_of(times_on(device));
  const SizeCurve& rates = found.rates_of("reduce.sum")->bytes_per_second_at;
  // The launch, which the smallest call tells, contains a row: up to a tenth of what the curve has.
  EXPECT_NEAR(rates.at(20) / 0.25e9, 1, 0.1);
  EXPECT_NEAR(rates.at(4000) / 1e9, 1, 0.1);
}

TEST(RatesOfADevice, TellRowsAndCopiesOfConvolutionsApart) {
  // 10 Gflop/s, of which rows of one pixel reach a fourth and rows of 16 pixels all; copies of
  // 2 GB/s.
  const ClassRates given{.flops_per_second = 1e10,
                         .row_efficiency = {{{512, 0.25}, {16 * 512, 1}}},
                         .copied_bytes_per_second = 2e9};
  DeviceCost device;
  device.launch = Seconds(1e-7);
  const std::vector<const char*> kernels{"convolution", "convolution_grad_input",
                                         "convolution_grad_weight", "convolution.ragged",
                                         "convolution.pointwise"};
  for (const char* kernel : kernels) device.kernels[kernel] = given;
  const std::vector<TimedPoint> times = times_on(device);
  const DeviceCost found = rates_of(times);
  for (const char* kernel : kernels) {
    EXPECT_NEAR(*found.rates_of(kernel)->copied_bytes_per_second / 2e9, 1, 0.2) << kernel;
    double sum = 0, count = 0;
    for (const auto& [point, time] : times) {
      const LocalWork work = work_of(point.call);
      // The launch is what the smallest call of a kernel takes.
      if (work.kernel != kernel || time < Seconds(1e-5)) continue;
      const double ratio = compute_price(work, found).estimate.value() / time.value();
      sum += std::abs(ratio - 1);
      ++count;
    }
    EXPECT_LT(sum / count, 0.05) << kernel;
  }
}

TEST(KernelGrid, HasConvolutionsOfShortAndLongRowsInEveryWay) {
  std::map<std::string_view, std::pair<double, double>> rows;
  for (const GridPoint& point : kernel_grid()) {
    const LocalWork work = work_of(point.call);
    if (!work.rows) continue;
    auto& [smallest, largest] = rows.try_emplace(work.kernel, 1e30, 0).first->second;
    smallest = std::min(smallest, work.rows->row.value());
    largest = std::max(largest, work.rows->row.value());
  }
  EXPECT_EQ(rows.size(), 15) << "5 ways of each of 3 kernels";
  for (const auto& [kernel, range] : rows) {
    EXPECT_LE(range.first, 2 * 512) << kernel << ": two pixels";
    EXPECT_GE(range.second, 7 * 512) << kernel << ": seven pixels";
  }
}

TEST(Neighbours, AgreeUnlessMoreWorkTookLessTime) {
  const auto add = [](int64_t count, double time) {
    const TensorType x{DType::kF32, {count}};
    return TimedPoint{{{"binary.add", {}, {}, "", {x, x}, {x}}, false}, Seconds(time)};
  };
  const auto list = [](const std::vector<TimedPoint>& times) { return disagreeing(times); };
  EXPECT_EQ(list({add(10, 1), add(100, 5), add(1000, 40)}), std::vector<size_t>{});
  EXPECT_EQ(list({add(10, 1), add(100, 500), add(1000, 40)}), std::vector<size_t>{1});
  EXPECT_EQ(list({add(10, 70), add(100, 500), add(1000, 40)}), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(list({add(100, 1.1), add(100, 1)}), std::vector<size_t>{}) << "within the tolerance";
  const TensorType x{DType::kF32, {1000}};
  const TimedPoint copy{{{"copy", {}, {}, "", {x}, {x}}, false}, Seconds(0.1)};
  EXPECT_EQ(list({add(100, 5), copy}), std::vector<size_t>{}) << "another kernel";
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
