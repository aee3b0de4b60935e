#include "cluster/cost/device_cost.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "cluster/cost/cost_model.h"

namespace tessera {
namespace {

/// 100 operations and 40 bytes a second; a launch takes half a second.
DeviceCost slow_device() {
  return {.flops_per_second = 100,
          .bytes_per_second = 40,
          .copied_bytes_per_second = 80,
          .launch = Seconds(0.5)};
}

LocalWork work(double flops, int64_t read, int64_t written) {
  return {.flops = Flops(flops), .read = Bytes(read), .written = Bytes(written)};
}

TEST(ComputePrice, IsThatOfArithmeticWhereItTakesLonger) {
  // 400 / 100 = 4 s of arithmetic, (60 + 20) / 40 = 2 s of memory traffic, 0.5 s of a launch.
  EXPECT_EQ(compute_price(work(400, 60, 20), slow_device()), (Price{Seconds(4.5), Seconds(4)}));
}

TEST(ComputePrice, IsThatOfMemoryWhereItTakesLonger) {
  // 100 / 100 = 1 s of arithmetic, (60 + 20) / 40 = 2 s of memory traffic.
  EXPECT_EQ(compute_price(work(100, 60, 20), slow_device()), (Price{Seconds(2.5), Seconds(2)}));
}

TEST(ComputePrice, TakesTheMostSpecificRate) {
  DeviceCost device = slow_device();
  device.classes[OperationClass::kMatmul] = {.flops_per_second = 200,
                                             .bytes_per_second = 10,
                                             .flops_per_second_of = {{DType::kBF16, 800}}};
  const auto price = [&](OperationClass operation, DType dtype, double flops, int64_t bytes) {
    return compute_price({operation, dtype, Flops(flops), Bytes(bytes)}, device).floor;
  };
  EXPECT_EQ(price(OperationClass::kElementwise, DType::kBF16, 800, 0), Seconds(8));  // 800 / 100
  EXPECT_EQ(price(OperationClass::kMatmul, DType::kF32, 800, 0), Seconds(4));        // 800 / 200
  EXPECT_EQ(price(OperationClass::kMatmul, DType::kBF16, 800, 0), Seconds(1));       // 800 / 800
  EXPECT_EQ(price(OperationClass::kMatmul, DType::kF32, 0, 40), Seconds(4));         // 40 / 10
  EXPECT_EQ(price(OperationClass::kGather, DType::kF32, 0, 40), Seconds(1));         // 40 / 40
}

TEST(ComputePrice, OfAClassWithoutARateIsThatOfTheDevice) {
  DeviceCost device = slow_device();
  device.classes[OperationClass::kMatmul] = {.flops_per_second_of = {{DType::kBF16, 800}}};
  EXPECT_EQ(device.flops_rate(OperationClass::kMatmul, DType::kF32), 100);
  EXPECT_EQ(device.memory_rate(OperationClass::kMatmul), 40);
}

TEST(ComputePrice, OfAKernelWithRatesOfItsOwnTakesThem) {
  DeviceCost device = slow_device();
  device.classes[OperationClass::kMatmul] = {.flops_per_second = 50, .launch = Seconds(2)};
  device.kernels["mine"] = {.flops_per_second = 10};
  LocalWork one = work(100, 0, 0);
  one.operation = OperationClass::kMatmul;
  EXPECT_EQ(compute_price(one, device).estimate, Seconds(4));  // 2 + 100 / 50
  one.kernel = "mine";
  EXPECT_EQ(compute_price(one, device).estimate, Seconds(12));  // 2 + 100 / 10
}

TEST(ComputePrice, TakesTheRatesOfThePieces) {
  DeviceCost device = slow_device();
  device.launch = Seconds(0);
  // A piece of 10 operations reaches half of 100 flop/s, one of 40 all of it; bytes alike.
  device.kernels["mine"] = {.efficiency = {{{10, 0.5}, {40, 1.0}}},
                            .bytes_per_second_at = {{{50, 5.0}, {200, 10.0}}}};
  const auto estimate = [&](double flops, int64_t bytes, double pieces) {
    LocalWork batch = work(flops, bytes, 0);
    batch.kernel = "mine";
    batch.pieces = pieces;
    return compute_price(batch, device).estimate;
  };
  EXPECT_EQ(estimate(40, 0, 1), Seconds(0.4));
  EXPECT_EQ(estimate(40, 0, 4), Seconds(0.8));
  EXPECT_EQ(estimate(0, 200, 1), Seconds(20));
  EXPECT_EQ(estimate(0, 200, 4), Seconds(40));
}

TEST(ComputePrice, OfAKernelWithRatesByRowsIsItsArithmeticAndItsCopies) {
  DeviceCost device = slow_device();
  // Rows of 10 operations reach half of 100 flop/s, those of 40 all of it; 20 bytes are copied in a
  // second.
  device.kernels["mine"] = {.row_efficiency = {{{10, 0.5}, {40, 1.0}}},
                            .copied_bytes_per_second = 20};
  LocalWork mine = work(1e6, 50, 0);
  mine.kernel = "mine";
  mine.rows = RowWork{.executed = Flops(200), .row = Flops(10), .copied = Bytes(60)};
  // 200 / 50 = 4 s of arithmetic, 60 / 20 = 3 s of copies, 0.5 s of a launch.
  EXPECT_EQ(compute_price(mine, device), (Price{Seconds(7.5), Seconds(5)}));
  mine.rows->row = Flops(40);
  EXPECT_EQ(compute_price(mine, device), (Price{Seconds(5.5), Seconds(5)}));
}

TEST(ComputePrice, OfAKernelWithoutRatesByRowsIsThatOfItsPieces) {
  DeviceCost device = slow_device();
  device.kernels["mine"] = {.efficiency = {{{50, 0.5}, {200, 1.0}}}};
  LocalWork mine = work(200, 0, 0);
  mine.kernel = "mine";
  const Price price = compute_price(mine, device);
  mine.rows = RowWork{.executed = Flops(1e6), .row = Flops(10), .copied = Bytes(1000)};
  EXPECT_EQ(compute_price(mine, device), price) << "as files of older measurements have it";
}

TEST(ComputePrice, OfAKernelThatGivesMemoryRatesOnlyCountsNoArithmetic) {
  DeviceCost device = slow_device();
  device.launch = Seconds(0);
  device.kernels["mine"] = {.bytes_per_second_at = {{{50, 5.0}}}};
  LocalWork mine = work(1e6, 50, 0);
  mine.kernel = "mine";
  EXPECT_EQ(compute_price(mine, device), (Price{Seconds(10), Seconds(10)}))
      << "its measured rate contains its arithmetic";
}

TEST(ComputePrice, ReadsPartOfTheOperandsFromWhereTheWorkingSetIs) {
  DeviceCost device = slow_device();
  device.launch = Seconds(0);
  device.classes[OperationClass::kElementwise] = {
      .bytes_per_second_at = {{{100, 100.0}, {10000, 10.0}}}};
  const LocalWork add = work(0, 50, 50);
  EXPECT_EQ(compute_price(add, device).estimate, Seconds(1)) << "100 B at 100 B/s";
  // The cold share of the 100 bytes takes 10 s instead of 1 s.
  EXPECT_DOUBLE_EQ(compute_price(add, device, Bytes(10000)).estimate.value(), 1 + kColdShare * 9);
  EXPECT_EQ(compute_price(add, device, Bytes(80)).estimate, Seconds(1))
      << "a working set that fits where the kernel's own bytes fit";
}

TEST(CopyPrice, HasALaunchForEachKernel) {
  // 160 / 80 = 2 s, and 3 launches of 0.5 s.
  EXPECT_EQ(copy_price(Bytes(160), 3, slow_device()), (Price{Seconds(3.5), Seconds(2)}));
}

TEST(Price, SumsAndMaximaTakeBothParts) {
  const Price a{Seconds(3), Seconds(1)}, b{Seconds(2), Seconds(2)};
  EXPECT_EQ(a + b, (Price{Seconds(5), Seconds(3)}));
  EXPECT_EQ(max(a, b), (Price{Seconds(3), Seconds(2)}));
}

TEST(Price, FloorsAreAtMostEstimatesAndGrowWithTheWork) {
  const RandomStream random(1, 0);
  uint64_t next = 0;
  const auto sample = [&](double largest) { return largest * random.uniform(next++); };
  for (int i = 0; i < 1000; ++i) {
    const DeviceCost device{.flops_per_second = 1 + sample(1e12),
                            .bytes_per_second = 1 + sample(1e10),
                            .copied_bytes_per_second = 1 + sample(1e10),
                            .launch = Seconds(sample(1e-3))};
    const auto bytes = static_cast<int64_t>(sample(1e9));
    const double flops = sample(1e12);
    const Price price = compute_price(work(flops, bytes, bytes), device);
    EXPECT_LE(price.floor, price.estimate);
    const Price more = compute_price(work(2 * flops, bytes + 1, bytes), device);
    EXPECT_LE(price.floor, more.floor);
    EXPECT_LE(price.estimate, more.estimate);
    const Price copy = copy_price(Bytes(bytes), i % 5, device);
    EXPECT_LE(copy.floor, copy.estimate);
    EXPECT_LE(copy.floor, copy_price(Bytes(bytes + 1), i % 5, device).floor);
    EXPECT_LE((price + copy).floor, (price + copy).estimate);
  }
}

TEST(CostModel, TheDefaultIsOneCoreAndThreadsOfOneMachine) {
  const CostModel cost;
  // A product of 100 x 100 x 100 at 20 Gflop/s: 2e6 / 2e10 = 100 us, and 2 us of a launch. It moves
  // 3 x 40,000 bytes, which takes 24 us at 5 GB/s.
  const LocalWork product{OperationClass::kMatmul, DType::kF32, Flops(2e6), Bytes(80000),
                          Bytes(40000)};
  const Price price = compute_price(product, cost.device);
  EXPECT_DOUBLE_EQ(price.floor.value(), 100e-6);
  EXPECT_DOUBLE_EQ(price.estimate.value(), 102e-6);
  // 1 MB at 5 GB/s: 200 us, and 1 us of latency.
  EXPECT_DOUBLE_EQ(message_price(Bytes(1'000'000), cost.links.any).estimate.value(), 201e-6);
}

}  // namespace
}  // namespace tessera
