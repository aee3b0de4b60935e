// Run alone, and under mpirun with 2 and with 4 processes: each runs all tests, in the same order.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/transport_suite.h"
#include "runtime/mpi/mpi_process.h"
#include "runtime/runtime/testing/exchange_programs.h"
#include "runtime/runtime/testing/stress.h"

namespace tessera {
namespace {

using namespace testing_programs;

/// MPI of this process, which main() starts and ends.
MpiProcess& mpi() {
  static std::optional<MpiProcess> process;
  if (!process) process.emplace();
  return *process;
}

class MpiTransport : public testing::Test {
 protected:
  void SetUp() override {
    if (!MpiProcess::is_built_in()) GTEST_SKIP() << "built without MPI";
  }
};

TEST_F(MpiTransport, KeepsTheContract) {
  const auto transport = mpi().transport();
  EXPECT_EQ(transport->process(), mpi().process());
  EXPECT_EQ(transport->size(), mpi().size());
  testing_transport::keeps_its_contract(*transport);
}

TEST_F(MpiTransport, MessagesArriveWhenTheirSenderDestroysItsTransport) {
  const bool is_sender = mpi().process() == 0;
  // Processes have no event for it. Where the sender takes longer, less is tested and nothing
  // fails.
  testing_transport::messages_arrive_when_their_sender_ends(mpi().transport(), [is_sender] {
    if (!is_sender) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
}

/// Open MPI gives the next communicator the number of one that was freed.
TEST_F(MpiTransport, MessagesThatAreNotReceivedDoNotDisturbTheNextTransport) {
  for (int round = 0; round < 3; ++round) {
    const auto transport = mpi().transport();
    testing_transport::ContractProcess me(*transport);
    me.barrier();
    if (mpi().process() == round % mpi().size()) continue;
    // The one that does not send is gone then, in most runs: it may also be later, and nothing
    // fails.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int number = 0; number < 100; ++number)
      for (int to : me.others()) me.send(to, testing_transport::message_text(0, to, number));
  }
}

TEST_F(MpiTransport, ExchangesGiveTheBitsOfThreads) {
  const auto network = std::make_shared<ProcessNetwork>(mpi().transport());
  for (const ReshardCase& way : ways_between_members()) {
    SCOPED_TRACE(way.mesh + ": " + way.from + " to " + way.to);
    Bench threads(resharding(way));
    threads.step();
    Bench bench(resharding(way), {.network = network});
    for (int step = 0; step < 3; ++step) bench.step();
    EXPECT_EQ(bytes_of(bench.result("x")), bytes_of(threads.result("x")));
  }
}

TEST_F(MpiTransport, TensorsThatAreExchangedTogetherHaveTheBitsOfEachAlone) {
  const auto network = std::make_shared<ProcessNetwork>(mpi().transport());
  for (const ReshardPair& way : ways_together()) {
    SCOPED_TRACE(way.mesh + ": " + way.parts.front().first);
    Bench threads(exchanging(way, false));
    threads.step();
    Bench bench(exchanging(way, true), {.network = network});
    for (int step = 0; step < 3; ++step) bench.step();
    EXPECT_EQ(all_results(bench, way), all_results(threads, way));
  }
}

TEST_F(MpiTransport, FastReductionGivesTheSumsUpToRounding) {
  const auto network = std::make_shared<ProcessNetwork>(mpi().transport());
  for (const ReshardCase& way : ways_of_the_transport(mpi().size())) {
    SCOPED_TRACE(way.mesh + ": " + way.from + " to " + way.to);
    Bench threads(resharding(way));
    threads.step();
    Bench bench(resharding(way), {.network = network, .reduction = Reduction::kFast});
    bench.overlapping_steps(4);
    expect_same_sums(bench.result("x"), threads.result("x"), way);
  }
}

TEST_F(MpiTransport, RandomProgramsWithRandomDelaysGiveWhatPlainLoopsGive) {
  using namespace testing_stress;
  const auto network = std::make_shared<ProcessNetwork>(mpi().transport());
  const int cases = setting("TESSERA_STRESS", 40), first = setting("TESSERA_STRESS_SEED", 0);
  for (int seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed)
    run_and_compare(static_cast<unsigned>(seed), {}, network);
}

/// Counts the bytes of pieces that processes of another group send to this one.
class CountingTransport : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> counted, int group_size, int64_t& received)
      : counted_(std::move(counted)), group_size_(group_size), received_(received) {}

  int process() const override { return counted_->process(); }
  int size() const override { return counted_->size(); }
  int tags() const override { return counted_->tags(); }
  void send(int to, std::span<const std::byte> message) override { counted_->send(to, message); }
  void send_data(int to, int tag, std::span<const std::byte> data, Countdown& left) override {
    counted_->send_data(to, tag, data, left);
  }
  void recv_data(int from, int tag, std::span<std::byte> data, Countdown& left) override {
    if (from / group_size_ != process() / group_size_) received_ += std::ssize(data);
    counted_->recv_data(from, tag, data, left);
  }
  void abandon() override { counted_->abandon(); }
  bool poll(const OnMessage& on_message) override { return counted_->poll(on_message); }
  int split(std::span<const int> processes) override { return counted_->split(processes); }
  void start(const Collective& what, GroupStream on, const std::byte* source, std::byte* target,
             Countdown& left) override {
    counted_->start(what, on, source, target, left);
  }

 private:
  std::unique_ptr<Transport> counted_;
  const int group_size_;
  int64_t& received_;
};

/// The bytes of pieces that enter this process from the other group of two, in a step in which a
/// tensor passes through these placements on node=2 dev=2.
int64_t bytes_from_the_other_group(const std::vector<std::string>& placements) {
  int64_t received = 0;
  const auto network = std::make_shared<ProcessNetwork>(
      std::make_unique<CountingTransport>(mpi().transport(), 2, received));
  const auto program = [&] {
    HandMade made(mesh_of("node=2 dev=2"));
    RegisterIndex reg = feed_anything(made, "x", placements.front());
    for (size_t i = 1; i < placements.size(); ++i)
      reg = made.exchange("x" + std::to_string(i), reg, placements[i]);
    made.result("x", reg);
    return made;
  };
  Bench threads(program()), bench(program(), {.network = network});
  threads.step();
  bench.step();
  const int64_t of_step = received;  // fetching the result is another exchange
  EXPECT_EQ(bytes_of(bench.result("x")), bytes_of(threads.result("x")));
  return of_step;
}

// Four processes, two in each group: half of the tensor enters a group. Directly it enters once for
// each process, level by level once.
TEST_F(MpiTransport, LevelByLevelWhatEntersAGroupEntersOnce) {
  if (mpi().size() != 4) GTEST_SKIP() << "two groups of two processes";
  constexpr int64_t kHalf = 4 * 400'000 / 2;
  EXPECT_EQ(bytes_from_the_other_group({"f32[400000@node@dev]", "f32[400000]"}), kHalf);
  EXPECT_EQ(
      bytes_from_the_other_group({"f32[400000@node@dev]", "f32[400000@dev/2]", "f32[400000]"}),
      kHalf / 2);
  EXPECT_EQ(
      bytes_from_the_other_group({"f32[400000] {partial sum: node, dev}",
                                  "f32[400000@dev/2] {partial sum: node}", "f32[400000@node@dev]"}),
      kHalf / 2);
}

TEST_F(MpiTransport, WhatFailsOnOneProcessFailsOnAll) {
  Runtime runtime({0, 1, 2, 3}, {.network = std::make_shared<ProcessNetwork>(mpi().transport())});
  const bool is_last = mpi().process() == mpi().size() - 1;
  EXPECT_THROW(runtime.on_all_processes([&] {
    if (is_last) throw UserError("the disk is full", "it has no room", "make room");
  }),
               UserError);
  EXPECT_TRUE(runtime.any(is_last));
  EXPECT_FALSE(runtime.any(false));
}

}  // namespace
}  // namespace tessera
