// Failures of a rank, and waits that take too long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/testing/waits.h"
#include "runtime/runtime/testing/programs.h"

namespace tessera {
namespace {

using namespace testing_programs;
using testing::AllOf;
using testing::HasSubstr;

constexpr RegisterIndex kY(1);

/// y = 2 x; gather y.
HandMade gathered(const std::string& mesh) {
  HandMade made(mesh_of(mesh));
  const RegisterIndex x = made.input("x", "f32[32@dp]");
  const RegisterIndex y = made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, "f32[32@dp]");
  made.graph().tasks.forms().back().steps[0].op = "mul_1";
  made.result("all", made.exchange("gather y", y, "f32[32]"));
  return made;
}

/// The message of run().
std::string failure_of(Bench& bench, const Observer* observer = nullptr) {
  try {
    bench.step(observer);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Failure, NamesRankTaskAndOpAndStopsAllRanks) {
  for (const std::string mesh : {"dp=1", "dp=4", "dp=16"}) {
    Bench bench(gathered(mesh));
    const Rank last = bench.runtime().ranks() - 1;
    const Observer observer = at(last, kY, [] { throw std::runtime_error("broken"); });
    const std::string expected =
        "internal error: rank " + std::to_string(last) + ", task 'y', op 'mul_1': broken";
    EXPECT_EQ(failure_of(bench, &observer), expected);
    EXPECT_EQ(failure_of(bench), expected) << "every later call throws too";
    EXPECT_THROW(bench.runtime().variable("w"), InternalError);
  }
}

TEST(Failure, AUserErrorStaysWhatItWasAndSaysWhere) {
  Bench bench(gathered("dp=2"));
  const Observer observer = at(1, kY, [] {
    throw UserError("the value is not finite", "it overflowed", "lower the rate",
                    ExitCode::kDiverged);
  });
  try {
    bench.step(&observer);
    FAIL() << "rank 1 threw";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), "the value is not finite");
    EXPECT_EQ(error.why(), "it overflowed (rank 1, task 'y', op 'mul_1')");
    EXPECT_EQ(error.fix(), "lower the rate");
    EXPECT_EQ(error.exit_code(), ExitCode::kDiverged);
  }
}

TEST(Failure, OutsideOfKernelsThereIsNoOp) {
  Bench bench(gathered("dp=2"));
  const Observer observer = at(0, RegisterIndex(0), [] { throw InternalError("odd"); });
  EXPECT_EQ(failure_of(bench, &observer), "internal error: rank 0, task 'feed': odd");
}

TEST(Failure, AKernelThatCannotBeBoundFailsTheLoadAlone) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[4@dp]");
  made.result("y", made.compute("y", {"no_such_kernel", {}, {}, ""}, {x}, "f32[4@dp]"));
  const auto graph = std::make_shared<TaskGraph>(made.finish());
  Runtime runtime(graph->meshes.front());
  EXPECT_THROW(runtime.load(graph), InternalError);
  EXPECT_NO_THROW(runtime.load(std::make_shared<TaskGraph>(gathered("dp=2").finish())));
}

TEST(Failure, AProgramOfAnotherMeshIsRefused) {
  Runtime runtime(mesh_of("dp=2"));
  EXPECT_THROW(runtime.load(std::make_shared<TaskGraph>(gathered("dp=4").finish())), InternalError);
}

// A short deadline may end any wait of a rank, also one that is short on an idle machine. So each
// rank comes to its wait only when the other one is at the task that the message must name.

/// Rank 0 leaves register `reg` when rank 1 is there, which stays until a rank has failed.
class RankOneStays {
 public:
  RankOneStays(Bench& bench, RegisterIndex reg)
      : observer_(all_of({at(0, reg, [this] { comes_true([this] { return is_there_.load(); }); }),
                          at(1, reg, [this, &bench] {
                            is_there_ = true;
                            comes_true([&bench] { return bench.runtime().failed(); });
                          })})) {}
  const Observer* observer() const { return &observer_; }

 private:
  std::atomic<bool> is_there_{false};
  Observer observer_;
};

TEST(Deadline, SaysWhoWaitsForWhom) {
  Bench bench(gathered("dp=2"), {.deadline = Seconds(0.05)});
  const RankOneStays slow(bench, kY);
  EXPECT_EQ(failure_of(bench, slow.observer()),
            "internal error: rank 0, task 'gather y': waited 50 ms: waits for register 'y' from "
            "'y' of rank 1, which is at task 'y'");
}

TEST(Deadline, NamesWhoHoldsWhatAWriterWaitsFor) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[32@dp]");
  const RegisterIndex w = made.variable("w", "f32[32@dp]");
  const RegisterIndex delay = made.compute("delay", {"scalar.mul", {}, {2}, ""}, {x}, "f32[32@dp]");
  made.result("all", made.exchange("gather w", w, "f32[32]"));
  made.update("w.next", {"binary.add", {}, {}, ""}, {w, x}, w);
  Bench bench(std::move(made), {.deadline = Seconds(0.05)});
  const RankOneStays slow(bench, delay);
  // Rank 1 filled w before its delay, so rank 0 gathers; the slower rank still holds w.
  EXPECT_EQ(failure_of(bench, slow.observer()),
            "internal error: rank 0, task 'w.next': waited 50 ms: waits to write over register "
            "'w', held by 'gather w' of rank 1, "
            "which is at task 'delay'");
}

TEST(Deadline, AWaitInTimeIsNoFailure) {
  Bench bench(gathered("dp=4"), {.deadline = Seconds(600)});
  // Rank 2 comes last to the gather: the others have nothing to do but to wait for it.
  std::atomic<int> others{0};
  const Observer counts = [&](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    if (rank != 2 && reg == kY) ++others;
  };
  for (int step = 0; step < 5; ++step) {
    others = 0;
    const Observer observer =
        all_of({counts, at(2, kY, [&] {
                  EXPECT_TRUE(comes_true([&] { return others == 3; }));
                  EXPECT_TRUE(stays_false([&] { return bench.runtime().failed(); }));
                })});
    EXPECT_EQ(failure_of(bench, &observer), "");
  }
}

}  // namespace
}  // namespace tessera
