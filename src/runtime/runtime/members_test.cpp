// Ranks in several processes compute what the same ranks compute as threads of one process, bit for
// bit. A failure of one process ends what the others do, also while they still load the program:
// tests that expect it in a step wait until all have loaded theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "runtime/runtime/testing/exchange_programs.h"
#include "runtime/runtime/testing/programs.h"

namespace tessera {
namespace {

using namespace testing_programs;
using namespace testing_transport;
using testing::HasSubstr;

struct Members {
  int count = 1;
  int delays = 0;
};

/// Calls work(network of a process) for each process.
void on_networks(const Members& members,
                 const std::function<void(const std::shared_ptr<ProcessNetwork>&)>& work) {
  on_processes(make_local_transports(members.count, members.delays, 1),
               [&](std::unique_ptr<Transport> mine) {
                 work(std::make_shared<ProcessNetwork>(std::move(mine)));
               });
}

class OverMembers : public testing::TestWithParam<Members> {};

TEST_P(OverMembers, ExchangesGiveTheBitsOfThreads) {
  for (const ReshardCase& way : ways_between_members()) {
    SCOPED_TRACE(way.mesh + ": " + way.from + " to " + way.to);
    Bench threads(resharding(way));
    threads.step();
    on_networks(GetParam(), [&](const std::shared_ptr<ProcessNetwork>& network) {
      Bench member(resharding(way), {.network = network});
      for (int step = 0; step < 3; ++step) member.step();
      EXPECT_EQ(bytes_of(member.result("x")), bytes_of(threads.result("x")));
    });
  }
}

TEST_P(OverMembers, TensorsThatAreExchangedTogetherHaveTheBitsOfEachAlone) {
  for (const ReshardPair& way : ways_together()) {
    SCOPED_TRACE(way.mesh + ": " + way.parts.front().first);
    Bench threads(exchanging(way, false));
    threads.step();
    on_networks(GetParam(), [&](const std::shared_ptr<ProcessNetwork>& network) {
      Bench member(exchanging(way, true), {.network = network});
      for (int step = 0; step < 3; ++step) member.step();
      EXPECT_EQ(all_results(member, way), all_results(threads, way));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, OverMembers,
                         testing::Values(Members{1}, Members{2}, Members{4}, Members{2, 10},
                                         Members{4, 10}));

TEST(FastReduction, GivesTheSumsUpToRoundingAndWhatIsNoSumBitForBit) {
  for (const int members : {2, 4})
    for (const ReshardCase& way : ways_of_the_transport(members)) {
      SCOPED_TRACE(way.mesh + ": " + way.from + " to " + way.to);
      Bench threads(resharding(way));
      threads.step();
      on_networks({members}, [&](const std::shared_ptr<ProcessNetwork>& network) {
        Bench member(resharding(way), {.network = network, .reduction = Reduction::kFast});
        member.overlapping_steps(4);
        expect_same_sums(member.result("x"), threads.result("x"), way);
      });
    }
}

TEST(FastReduction, SumsTensorsThatAreExchangedTogether) {
  const ReshardPair way{
      "dp=2",
      {{"f32[301, 70] {partial sum: dp}", "f32[301, 70]"}, {"f32[3] {partial sum: dp}", "f32[3]"}}};
  Bench threads(exchanging(way, false));
  threads.step();
  on_networks({2}, [&](const std::shared_ptr<ProcessNetwork>& network) {
    Bench member(exchanging(way, true), {.network = network, .reduction = Reduction::kFast});
    member.overlapping_steps(4);
    // A sum of two numbers has the same bits in both orders.
    EXPECT_EQ(all_results(member, way), all_results(threads, way));
  });
}

TEST(FastReduction, LeavesSumsToTheTransport) {
  // The local transport adds backwards: 1e8 - 1e8 + 1 is 1, and 1 - 1e8 + 1e8 is 0.
  for (const Reduction reduction : {Reduction::kOrdered, Reduction::kFast})
    on_networks({3}, [&](const std::shared_ptr<ProcessNetwork>& network) {
      HandMade made(mesh_of("dp=3"));
      made.result("x", made.exchange("sum", feed_anything(made, "x", "f32[1] {partial sum: dp}"),
                                     "f32[1]"));
      Bench bench(std::move(made), {.network = network, .reduction = reduction});
      std::ranges::copy(std::array{1e8F, -1e8F, 1.0F}, bench.input("x").values<float>().begin());
      bench.step();
      EXPECT_EQ(list<float>(bench.result("x")),
                std::vector<float>{reduction == Reduction::kOrdered ? 1.0F : 0.0F});
    });
}

TEST(FastReduction, AFailureEndsAWaitForTheOthers) {
  std::barrier all_have_loaded(3);
  on_networks({3}, [&](const std::shared_ptr<ProcessNetwork>& network) {
    HandMade made(mesh_of("dp=3"));
    const RegisterIndex x = feed_anything(made, "x", "f32[4] {partial sum: dp}");
    made.result("x", made.exchange("sum", x, "f32[4]"));
    Bench bench(std::move(made), {.network = network, .reduction = Reduction::kFast});
    all_have_loaded.arrive_and_wait();
    const Observer observer = [&](Rank rank, RegisterIndex reg, const Coordinate&,
                                  const std::byte*) {
      if (rank == 1 && reg == x) throw std::runtime_error("broken");
    };
    try {
      bench.step(&observer);
      ADD_FAILURE() << "rank 1 threw";
    } catch (const InternalError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1, task 'x.partial'"));
    }
  });
}

/// w += sum over ranks of x; the result is the new w.
HandMade summing() {
  HandMade made(mesh_of("dp=4"));
  const RegisterIndex x = feed_anything(made, "x", "f32[6] {partial sum: dp}");
  const RegisterIndex w = made.variable("w", "f32[6@dp]");
  const RegisterIndex sum = made.exchange("sum", x, "f32[6@dp]");
  made.result("w", made.update("w.next", {"binary.add", {}, {}, ""}, {w, sum}, w));
  return made;
}

TEST(Members, EachHoldsItsPartsOfVariablesAndAllGetTheWhole) {
  Bench threads(summing());
  threads.runtime().initialize(threads.program(), 3);
  for (int step = 0; step < 3; ++step) threads.step();
  const Tensor wanted = threads.runtime().variable("w");
  on_networks({2}, [&](const std::shared_ptr<ProcessNetwork>& network) {
    Bench member(summing(), {.network = network});
    member.runtime().initialize(member.program(), 3);
    for (int step = 0; step < 3; ++step) member.step();
    EXPECT_EQ(bytes_of(member.runtime().variable("w")), bytes_of(wanted));
    EXPECT_EQ(member.runtime().ranks(), 4);
    EXPECT_EQ(member.runtime().local_ranks(),
              (network->process() == 0 ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3}));
    EXPECT_NO_THROW(member.runtime().check_replicas());
    member.runtime().set_variable("w", Tensor({DType::kF32, {6}}));
    EXPECT_EQ(list<float>(member.runtime().variable("w")), std::vector<float>(6, 0.0F));
  });
}

/// Many small kernels, and an exchange whose turn is after all of them but which may be prefetched.
struct Ahead {
  static constexpr int kKernels = 400;
  RegisterIndex first, last, exchanged;

  HandMade make(const std::string& from, const std::string& to, bool may_begin) {
    HandMade made(mesh_of("dp=2"));
    const RegisterIndex x = feed_anything(made, "x", from);
    const RegisterIndex y = made.input("y", "f32[4@dp]");
    RegisterIndex k = first = made.compute("k", {"scalar.mul", {}, {2}, ""}, {y}, "f32[4@dp]");
    for (int i = 1; i < kKernels; ++i)
      k = made.compute("k" + std::to_string(i), {"scalar.mul", {}, {0.5}, ""}, {k}, "f32[4@dp]");
    last = k;
    exchanged = made.exchange("exchange", x, to);
    TaskTable& tasks = made.graph().tasks;
    if (may_begin) tasks.instance(tasks.end_index() - 1).issue_after = TaskId(0);
    made.result("k", k);
    made.result("x", exchanged);
    return made;
  }
};

TEST(Members, AnExchangeThatMayBeginAheadIsOverBeforeItsTurn) {
  for (const auto& [from, to] : {std::pair("f32[8@dp, 3]", "f32[8, 3]"),
                                 std::pair("f32[300, 1001] {partial sum: dp}", "f32[300, 1001]")})
    for (const bool may_begin : {true, false}) {
      Bench threads(Ahead().make(from, to, may_begin));
      threads.step();
      on_networks({2, 5}, [&](const std::shared_ptr<ProcessNetwork>& network) {
        Ahead ahead;
        Bench member(ahead.make(from, to, may_begin), {.network = network});
        bool is_over = false;
        int kernels_behind = 0, kernels_before = 0;
        // The exchange advances between two kernels, so no kernel can wait for its end. Until it is
        // over, they take longer and longer, up to 40 s in all: the machine may run the threads of
        // the other process late.
        const Observer observer = [&](Rank, RegisterIndex reg, const Coordinate&,
                                      const std::byte*) {
          if (reg == ahead.exchanged) is_over = true;
          if (reg < ahead.first || reg > ahead.last) return;
          if (is_over) ++kernels_behind;
          if (is_over || !may_begin) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(1 << (kernels_before++ / 40)));
        };
        for (int step = 0; step < 2; ++step) {
          is_over = false;
          kernels_behind = kernels_before = 0;
          member.step(&observer);
          EXPECT_EQ(kernels_behind > 0, may_begin);
          EXPECT_EQ(bytes_of(member.result("x")), bytes_of(threads.result("x")));
        }
      });
    }
}

TEST(Members, AFailureWhileSomethingIsUnderWayAheadEndsAll) {
  std::barrier all_have_loaded(2);
  on_networks({2}, [&](const std::shared_ptr<ProcessNetwork>& network) {
    Ahead ahead;
    Bench member(ahead.make("f32[300, 1001] {partial sum: dp}", "f32[300, 1001]", true),
                 {.network = network});
    all_have_loaded.arrive_and_wait();
    const Observer observer = [&](Rank rank, RegisterIndex reg, const Coordinate&,
                                  const std::byte*) {
      if (rank == 1 && reg == ahead.first + 3) throw std::runtime_error("broken");
    };
    try {
      member.step(&observer);
      ADD_FAILURE() << "rank 1 threw";
    } catch (const InternalError& error) {
      EXPECT_STREQ(error.what(), "internal error: rank 1, task 'k3', op 'k3': broken");
    }
  });
}

TEST(Members, ReplicasThatDifferBetweenMembersAreFoundOnAll) {
  on_networks({2}, [](const std::shared_ptr<ProcessNetwork>& network) {
    HandMade made(mesh_of("dp=2"));
    const RegisterIndex x = made.input("x", "f32[4@dp]"), w = made.variable("w", "f32[2]");
    made.update("w.next", {"binary.add", {}, {}, ""}, {w, x},
                w);  // each rank adds a part of its own to what should be one value
    Bench member(std::move(made), {.network = network});
    EXPECT_NO_THROW(member.runtime().check_replicas());
    member.step();
    EXPECT_THROW(member.runtime().check_replicas(), UserError);
  });
}

TEST(Members, WhatFailsOnOneFailsOnAll) {
  on_networks({3}, [](const std::shared_ptr<ProcessNetwork>& network) {
    HandMade made(mesh_of("dp=3"));
    made.result("x", made.exchange("gather", made.input("x", "f32[6@dp]"), "f32[6]"));
    Bench member(std::move(made), {.network = network});
    try {
      member.runtime().on_all_processes([&] {
        if (network->process() == 1)
          throw UserError("the disk is full", "it has no room", "make room", ExitCode::kBadData);
      });
      ADD_FAILURE() << "one failed";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), "the disk is full");
      EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    }
    EXPECT_TRUE(member.runtime().any(network->process() == 2));
    EXPECT_FALSE(member.runtime().any(false));
    member.step();  // the run continues
  });
}

TEST(Members, TheFirstFailureOfARankIsToldToAllWithRankTaskAndOp) {
  std::barrier all_have_loaded(4);
  on_networks({4}, [&](const std::shared_ptr<ProcessNetwork>& network) {
    HandMade made(mesh_of("dp=4"));
    const RegisterIndex x = made.input("x", "f32[32@dp]");
    const RegisterIndex y = made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, "f32[32@dp]");
    made.result("all", made.exchange("gather y", y, "f32[32]"));
    Bench member(std::move(made), {.network = network});
    all_have_loaded.arrive_and_wait();
    const Observer observer = [&](Rank rank, RegisterIndex reg, const Coordinate&,
                                  const std::byte*) {
      if (rank == 2 && reg == y) throw std::runtime_error("broken");
    };
    try {
      member.step();  // the message may arrive before the end of this step
      member.step(&observer);
      ADD_FAILURE() << "rank 2 threw";
    } catch (const InternalError& error) {
      EXPECT_STREQ(error.what(), "internal error: rank 2, task 'y', op 'y': broken");
    }
    EXPECT_THROW(member.step(), InternalError) << "every later call throws too";
  });
}

}  // namespace
}  // namespace tessera
