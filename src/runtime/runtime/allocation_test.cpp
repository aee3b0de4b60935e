// A step allocates nothing: an operator new of our own, for the whole test program, counts
// allocations.
#include "base/testing/allocation.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/runtime/testing/programs.h"

namespace {

std::atomic<bool> is_counting{false};
std::atomic<int> allocations{0};
// the register that the first allocating thread had filled last
std::atomic<int> register_before{-1};
thread_local int last_filled = -1;

}  // namespace

void tessera::allocation_testing::on_allocation(const void*) {
  if (is_counting.load(std::memory_order_relaxed) && allocations.fetch_add(1) == 0)
    register_before = last_filled;
}

namespace tessera {
namespace {

using namespace testing_programs;

TEST(RuntimeAllocation, AStepAllocatesNothingAfterTheSecond) {
  for (const std::string mesh : {"dp=1", "dp=2", "dp=16"}) {
    HandMade made(mesh_of(mesh));
    const RegisterIndex addend = feed_anything(made, "x", "f32[2000] {partial sum: dp}");
    const RegisterIndex w = made.variable("w", "f32[2000]");
    const RegisterIndex sum = made.reshard("sum", addend, "f32[2000]");
    const RegisterIndex twice =
        made.compute("twice", {"scalar.mul", {}, {2}, ""}, {sum}, "f32[2000]");
    const RegisterIndex part = made.reshard("part", twice, "f32[2000@dp]");
    made.result("w", made.update("w.next", {"binary.sub", {}, {}, ""}, {w, twice}, w));
    made.result("part", part);
    Bench bench(std::move(made));
    const Observer observer = [](Rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
      last_filled = reg.value();
    };
    for (int step = 0; step < 2; ++step) bench.step(&observer);
    allocations = 0;
    is_counting = true;
    for (int step = 0; step < 20; ++step) bench.step(&observer);
    is_counting = false;
    bench.overlapping_steps(2, &observer);  // the first run with the slot of the second step
    is_counting = true;
    bench.overlapping_steps(20, &observer);
    is_counting = false;
    const RegisterIndex reg(register_before);
    EXPECT_EQ(allocations, 0) << mesh << ": the first by a thread that had filled "
                              << (reg.is_none() ? std::string("nothing")
                                                : bench.graph().registers[reg].name.text());
  }
}

TEST(RuntimeAllocation, AStepThatIsTracedAllocatesNothingEither) {
  HandMade made(mesh_of("dp=2"));
  made.result("sum", made.reshard("sum", feed_anything(made, "x", "f32[200] {partial sum: dp}"),
                                  "f32[200]"));
  Bench bench(std::move(made));
  for (int step = 0; step < 2; ++step) bench.step();
  bench.runtime().start_trace(100);  // too few for the last ones
  allocations = 0;
  is_counting = true;
  for (int step = 0; step < 20; ++step) bench.step();
  is_counting = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(bench.runtime().stop_trace().lost, 0);
}

TEST(RuntimeAllocation, ARankThatDrawsItsPartHoldsNoMoreThanThat) {
  HandMade made(mesh_of("tp=8"));
  made.variable("w", "f32[2048@tp, 1024]", Initializer::normal(0, 1));  // 8 MiB, 1 MiB per rank
  made.variable("v", "f32[2048, 1024@tp]", Initializer::normal(0, 1));
  Bench bench(std::move(made));
  const int64_t peak =
      thread_peak::measure([&] { bench.runtime().initialize(bench.program(), 1); });
  EXPECT_GE(peak, 1 << 20);  // sampled in memory of its own
  EXPECT_LE(peak, (1 << 20) + (1 << 16));
}

}  // namespace
}  // namespace tessera
