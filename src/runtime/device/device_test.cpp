// The contract of devices, for each kind.
#include "runtime/device/device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "runtime/device/testing/finish.h"

namespace tessera {
namespace {

std::unique_ptr<Device> device_of(DeviceKind kind) {
  return kind == DeviceKind::kHost ? make_host_device() : make_fake_device();
}

/// Adds `number` to each of `count` floats.
BoundKernel add(float number, int count) {
  return {[=](const KernelBuffers& buffers) {
            const auto* from = reinterpret_cast<const float*>(buffers.inputs[0]);
            auto* to = reinterpret_cast<float*>(buffers.outputs[0]);
            for (int i = 0; i < count; ++i) to[i] = from[i] + number;
          },
          Bytes(0)};
}

/// One operand and one result.
struct Operands {
  const std::byte* input;
  std::byte* output;
  KernelBuffers buffers() { return {{&input, 1}, {&output, 1}, nullptr}; }
};

class DeviceContract : public testing::TestWithParam<DeviceKind> {
 protected:
  std::unique_ptr<Device> device_ = device_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kinds, DeviceContract, testing::ValuesIn(all_device_kinds()),
                         [](const auto& kind) { return std::string(to_text(kind.param)); });

constexpr int kCount = 5000;
constexpr Bytes kSize{kCount * sizeof(float)};

TEST_P(DeviceContract, IsOfItsKind) {
  EXPECT_EQ(device_->kind(), GetParam());
}

TEST_P(DeviceContract, MemoryBeginsAsZerosAndIsAligned) {
  const DeviceMemory memory = device_->allocate(kSize);
  EXPECT_EQ(memory.size(), kSize);
  EXPECT_EQ(
      reinterpret_cast<uintptr_t>(memory.address()) % static_cast<uintptr_t>(kTensorAlignment), 0U);
  std::vector<float> out(kCount, 7);
  const auto stream = device_->make_stream();
  stream->copy_out(reinterpret_cast<std::byte*>(out.data()), memory.address(), kSize);
  finish(*stream);
  EXPECT_EQ(out, std::vector<float>(kCount, 0));
}

TEST_P(DeviceContract, WorkRunsInTheOrderInWhichItWasGiven) {
  const DeviceMemory a = device_->allocate(kSize), b = device_->allocate(kSize);
  const auto stream = device_->make_stream();
  std::vector<float> in(kCount), out(kCount), expected(kCount);
  std::iota(in.begin(), in.end(), 0.0F);
  std::iota(expected.begin(), expected.end(), 111.0F);
  const BoundKernel one = add(1, kCount), ten = add(10, kCount), hundred = add(100, kCount);
  Operands forth{a.address(), b.address()}, back{b.address(), a.address()};
  stream->copy_in(a.address(), reinterpret_cast<const std::byte*>(in.data()), kSize);
  stream->launch(one, forth.buffers());
  stream->launch(ten, back.buffers());
  stream->launch(hundred, forth.buffers());
  stream->copy_out(reinterpret_cast<std::byte*>(out.data()), b.address(), kSize);
  finish(*stream);
  EXPECT_EQ(out, expected);
}

TEST_P(DeviceContract, AnAddressInsideOfAMemoryIsOneToo) {
  const DeviceMemory memory = device_->allocate(Bytes(8 * sizeof(float)));
  const auto stream = device_->make_stream();
  const float in[] = {1, 2, 3};
  float out[8] = {};
  stream->copy_in(memory.address() + 2 * sizeof(float), reinterpret_cast<const std::byte*>(in),
                  Bytes(sizeof(in)));
  stream->copy_out(reinterpret_cast<std::byte*>(out), memory.address(), Bytes(sizeof(out)));
  finish(*stream);
  EXPECT_EQ(std::vector<float>(out, out + 8), (std::vector<float>{0, 0, 1, 2, 3, 0, 0, 0}));
}

TEST_P(DeviceContract, AnEventIsReachedAfterTheWorkBeforeItAndWakesWhoWaits) {
  std::atomic<int> woken{0}, ran{0};
  const BoundKernel count{[&](const KernelBuffers&) { ran.fetch_add(1); }, Bytes(0)};
  const auto stream = device_->make_stream();
  DeviceEvent event([&] { woken.fetch_add(1); });
  EXPECT_TRUE(event.reached()) << "before it was recorded";
  for (int round = 1; round <= 3; ++round) {
    stream->launch(count, {});
    stream->record(event);
    while (!event.reached()) std::this_thread::yield();
    EXPECT_EQ(ran, round);
  }
  finish(*stream);
  EXPECT_EQ(woken, 3);
}

TEST_P(DeviceContract, WhatAKernelThrowsComesOutOfEveryEventAfterIt) {
  const BoundKernel thrower{
      [](const KernelBuffers&) { throw UserError("broken", "it is", "fix it"); }, Bytes(0)};
  int later = 0;
  const BoundKernel counter{[&](const KernelBuffers&) { ++later; }, Bytes(0)};
  const auto stream = device_->make_stream();
  stream->launch(thrower, {});
  EXPECT_THROW(finish(*stream), UserError);
  stream->launch(counter, {});
  EXPECT_THROW(finish(*stream), UserError);
  EXPECT_EQ(later, 0);
}

TEST_P(DeviceContract, StreamsOfOneDeviceShareItsMemory) {
  const DeviceMemory memory = device_->allocate(kSize);
  const auto first = device_->make_stream(), second = device_->make_stream();
  const std::vector<float> in(kCount, 3);
  std::vector<float> out(kCount);
  first->copy_in(memory.address(), reinterpret_cast<const std::byte*>(in.data()), kSize);
  finish(*first);
  second->copy_out(reinterpret_cast<std::byte*>(out.data()), memory.address(), kSize);
  finish(*second);
  EXPECT_EQ(out, in);
}

TEST(FakeDevice, AStreamRefusesMemoryOfTheHost) {
  const auto device = make_fake_device();
  const auto stream = device->make_stream();
  float host[4] = {};
  const BoundKernel kernel = add(1, 4);
  Operands operands{reinterpret_cast<const std::byte*>(host), reinterpret_cast<std::byte*>(host)};
  stream->launch(kernel, operands.buffers());
  EXPECT_THROW(finish(*stream), InternalError);
}

TEST(FakeDevice, AStreamRefusesMemoryOfAnotherDevice) {
  const auto device = make_fake_device(), other = make_fake_device();
  const DeviceMemory memory = other->allocate(Bytes(16));
  const auto stream = device->make_stream();
  float out[4] = {};
  stream->copy_out(reinterpret_cast<std::byte*>(out), memory.address(), Bytes(16));
  EXPECT_THROW(finish(*stream), InternalError);
}

TEST(FakeDeviceDeathTest, TheHostFaultsWhereTheDeviceHasItsMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const auto device = make_fake_device();
        const DeviceMemory memory = device->allocate(Bytes(16));
        *static_cast<volatile std::byte*>(memory.address()) = std::byte{1};
      },
      "");
}

TEST(FakeDevice, TheHostGoesOnWhileItWorks) {
  const auto device = make_fake_device();
  const auto stream = device->make_stream();
  std::atomic<bool> may_end{false};
  const BoundKernel waits{[&](const KernelBuffers&) {
                            while (!may_end) std::this_thread::yield();
                          },
                          Bytes(0)};
  DeviceEvent event;
  stream->launch(waits, {});
  stream->record(event);
  EXPECT_FALSE(event.reached()) << "the kernel waits for what the host does next";
  may_end = true;
  while (!event.reached()) std::this_thread::yield();
}

TEST(FakeDevice, StreamsWorkAtTheSameTime) {
  const auto device = make_fake_device();
  const auto first = device->make_stream(), second = device->make_stream();
  std::atomic<int> there{0};
  const BoundKernel meets{[&](const KernelBuffers&) {
                            there.fetch_add(1);
                            while (there < 2) std::this_thread::yield();
                          },
                          Bytes(0)};
  first->launch(meets, {});
  second->launch(meets, {});
  finish(*first);
  finish(*second);
  EXPECT_EQ(there, 2);
}

TEST(FakeDevice, WorkBeginsNoEarlierThanTheLaunchAllowsAndTakesAsManyTimesAsLong) {
  using Clock = std::chrono::steady_clock;
  const auto device = make_fake_device({.launch = Seconds(0.005), .slowness = 3});
  const auto stream = device->make_stream();
  Clock::time_point begin, end;
  const BoundKernel kernel{[&](const KernelBuffers&) {
                             begin = Clock::now();
                             std::this_thread::sleep_for(std::chrono::milliseconds(2));
                             end = Clock::now();
                           },
                           Bytes(0)};
  const auto launched = Clock::now();
  stream->launch(kernel, {});
  finish(*stream);
  EXPECT_GE(begin - launched, std::chrono::milliseconds(5));
  EXPECT_GE(Clock::now() - begin, 3 * std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace tessera
