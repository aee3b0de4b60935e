#include "runtime/runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/testing/error.h"
#include "base/testing/waits.h"
#include "base/threads/worker.h"
#include "ir/graph/initializer.h"
#include "runtime/runtime/testing/programs.h"

namespace tessera {
namespace {

using namespace testing_programs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

KernelCall call(const std::string& kernel, std::vector<double> reals = {}) {
  return {kernel, {}, std::move(reals), ""};
}

TEST(Runtime, RunsAChainOfKernelsOnOneRank) {
  HandMade made(mesh_of("dp=1"));
  const RegisterIndex x = made.input("x", "f32[5]");
  const RegisterIndex twice = made.compute("twice", call("scalar.mul", {2}), {x}, "f32[5]");
  made.result("y", made.compute("y", call("binary.add"), {twice, x}, "f32[5]"));
  Bench bench(std::move(made));
  bench.step();
  std::vector<float> expected;
  for (float value : bench.input("x").values<float>()) expected.push_back(value * 2 + value);
  EXPECT_EQ(list<float>(bench.result("y")), expected);
}

TEST(Runtime, AChainOnPartsIsTheChainOnTheWhole) {
  for (const std::string mesh : {"dp=2", "dp=4", "dp=16"}) {
    HandMade made(mesh_of(mesh));
    // Uneven; with 16 ranks some parts are empty.
    const RegisterIndex x = made.input("x", "f32[13@dp, 3]");
    const RegisterIndex twice =
        made.compute("twice", call("scalar.mul", {2}), {x}, "f32[13@dp, 3]");
    made.result("y", made.compute("y", call("binary.add"), {twice, x}, "f32[13@dp, 3]"));
    Bench bench(std::move(made));
    bench.step();
    std::vector<float> expected;
    for (float value : bench.input("x").values<float>()) expected.push_back(value * 2 + value);
    EXPECT_EQ(list<float>(bench.result("y")), expected) << mesh;
  }
}

TEST(Runtime, ParametersFollowTheCoordinate) {
  // iota along a divided dim begins with the begin of the part. 7 over 3: 0..3, 3..5, 5..7.
  HandMade made(mesh_of("dp=3"));
  const Split split{7, 1, {{0, 3}}};
  made.result("i", made.compute("i", {"iota", {LocalInt(0), LocalInt::begin_of(split)}, {}, ""}, {},
                                "i32[7@dp]"));
  Bench bench(std::move(made));
  bench.step();
  EXPECT_THAT(list<int32_t>(bench.result("i")), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

/// What a program that needs more memory than any machine has is refused with.
std::string refusal_of(HandMade made) {
  try {
    Bench bench(std::move(made));
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kOutOfMemory);
    return error.why();
  }
  return "no error";
}

TEST(Runtime, AProgramThatNeedsMoreMemoryThanTheMachineHasIsRefusedBeforeItIsAllocated) {
  HandMade arena(mesh_of("dp=2"));
  arena.result("y", arena.compute("y", call("scalar.mul", {2}), {arena.input("x", "f32[6@dp]")},
                                  "f32[6@dp]"));
  arena.graph().arenas.front() = Bytes(int64_t{1} << 50);
  EXPECT_THAT(refusal_of(std::move(arena)),
              StartsWith("2 ranks of this process: 0 B of variables and 2 PiB of activations; "
                         "the machine has "));
  // Each of many variables alone would be given: 2^10 of 2^30 elements.
  HandMade variables(mesh_of("dp=1"));
  for (int i = 0; i < 1024; ++i)
    variables.variable("w" + std::to_string(i), "f32[1024, 1048576]", Initializer::constant(0));
  EXPECT_THAT(refusal_of(std::move(variables)), StartsWith("1 rank of this process: 4 TiB of "));
}

TEST(Runtime, ARegisterOfSeveralSlotsGoesAroundThem) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[6@dp]");
  const RegisterIndex y = made.compute("y", call("scalar.mul", {3}), {x}, "f32[6@dp]");
  RegisterForm& reg = made.graph().registers.form(y);
  reg.slots = 3;
  made.graph().arenas.front() += Bytes(2 * slot_stride(reg).value());
  const RegisterIndex all = made.exchange("gather", y, "f32[6]");
  made.graph().registers.offset(all) = 64 + 3 * 64;
  made.result("all", all);
  Bench bench(std::move(made));
  std::vector<float> expected;
  for (float value : bench.input("x").values<float>()) expected.push_back(value * 3);
  std::atomic<const std::byte*> place{nullptr};
  const Observer observer = [&](Rank rank, RegisterIndex index, const Coordinate&,
                                const std::byte* data) {
    if (rank == 0 && index == y) place = data;
  };
  std::vector<const std::byte*> places;
  for (int step = 0; step < 4; ++step) {
    bench.step(&observer);
    EXPECT_EQ(list<float>(bench.result("all")), expected);
    places.push_back(place);
  }
  EXPECT_EQ(places[1] - places[0], 64);
  EXPECT_EQ(places[2] - places[0], 128);
  EXPECT_EQ(places[3], places[0]);
}

/// w = w - (sum over all ranks of the rows of x), as in data parallelism.
HandMade summed_update(const std::string& mesh, int64_t ranks) {
  HandMade made(mesh_of(mesh));
  const RegisterIndex addend = feed_anything(made, "x", "f32[600] {partial sum: dp}");
  const RegisterIndex w = made.variable("w", "f32[600]", Initializer::normal(0, 1));
  const RegisterIndex sum = made.reshard("sum", addend, "f32[600]");
  made.result("w", made.update("w.next", call("binary.sub"), {w, sum}, w));
  ensure(made.graph().meshes.front()->size() == ranks, "as many ranks as the caller expects");
  return made;
}

TEST(Runtime, VariablesAreUpdatedInPlaceStepByStep) {
  for (const auto& [mesh, ranks] : std::vector<std::pair<std::string, int64_t>>{
           {"dp=1", 1}, {"dp=2", 2}, {"dp=4", 4}, {"dp=16", 16}}) {
    Bench bench(summed_update(mesh, ranks));
    bench.runtime().initialize(bench.program(), 11);
    const Tensor start =
        initial_value("w", {DType::kF32, {600}}, Initializer::normal(0, 1), 11, whole_box({600}));
    EXPECT_EQ(bytes_of(bench.runtime().variable("w")), bytes_of(start));
    std::vector<float> w = list<float>(start);
    const auto x = bench.input("x").values<float>();
    for (int step = 0; step < 3; ++step) {
      bench.step();
      for (size_t i = 0; i < w.size(); ++i) {
        float sum = x[i];
        for (size_t rank = 1; rank < static_cast<size_t>(ranks); ++rank)
          sum += x[rank * w.size() + i];
        w[i] -= sum;
      }
      EXPECT_EQ(list<float>(bench.result("w")), w) << mesh;
    }
    EXPECT_EQ(list<float>(bench.runtime().variable("w")), w) << mesh;
  }
}

TEST(Runtime, RanksDrawTheirPartsOfTheSameWhole) {
  for (const std::string type : {"f32[9@dp, 5]", "f32[9, 5@tp]", "f32[9@tp@dp, 5]"}) {
    HandMade made(mesh_of("dp=2 tp=2"));
    made.variable("w", type, Initializer::uniform(-1, 1));
    Bench bench(std::move(made));
    bench.runtime().initialize(bench.program(), 5);
    const Tensor whole = initial_value("w", {DType::kF32, {9, 5}}, Initializer::uniform(-1, 1), 5,
                                       whole_box({9, 5}));
    EXPECT_EQ(bytes_of(bench.runtime().variable("w")), bytes_of(whole)) << type;
  }
}

TEST(Runtime, AVariableInAddendsIsTheirSum) {
  HandMade made(mesh_of("dp=3"));
  const RegisterIndex x = made.input("x", "f32[5]");
  const RegisterIndex sum =
      made.variable("sum", "f32[5] {partial sum: dp}", Initializer::constant(0));
  made.update("sum.next", call("binary.add"), {sum, x}, sum);
  Bench bench(std::move(made));
  bench.runtime().initialize(bench.program(), 1);
  EXPECT_EQ(list<float>(bench.runtime().variable("sum")), std::vector<float>(5, 0.0f));
  bench.step();
  std::vector<float> three;
  for (float value : bench.input("x").values<float>())
    three.push_back(value + value + value);  // the value of each rank, three times
  EXPECT_EQ(list<float>(bench.runtime().variable("sum")), three);
  const Tensor given = drawn("given", {DType::kF32, {5}});
  bench.runtime().set_variable("sum", given);
  EXPECT_EQ(bytes_of(bench.runtime().variable("sum")), bytes_of(given));
}

TEST(Runtime, AVariableThatWasSetIsNotDrawn) {
  Bench bench(summed_update("dp=2", 2));
  const Tensor given = drawn("given", {DType::kF32, {600}});
  bench.runtime().set_variable("w", given);
  bench.runtime().initialize(bench.program(), 3);
  EXPECT_EQ(bytes_of(bench.runtime().variable("w")), bytes_of(given));
  EXPECT_THAT(bench.runtime().variable_names(), ElementsAre("w"));
  EXPECT_THROW(bench.runtime().set_variable("w", drawn("short", {DType::kF32, {599}})),
               InternalError);
  EXPECT_THROW(bench.runtime().variable("v"), InternalError);
}

TEST(Runtime, EveryRankHandsOutItsPartsAndTheFirstHoldersTileTheWhole) {
  HandMade made(mesh_of("dp=2 tp=3"));
  made.variable("columns", "f32[4, 7@tp]");
  made.variable("whole", "i32[5]");
  Bench bench(std::move(made));
  std::mutex mutex;
  std::vector<std::string> seen;
  std::set<std::thread::id> threads;
  bench.runtime().on_every_rank([&](Rank rank, std::span<const VariablePart> parts) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    for (const VariablePart& part : parts)
      if (part.first_holder)
        seen.push_back(part.name + " " + to_text(part.whole) + " " + to_text(part.box) + " rank " +
                       std::to_string(rank));
  });
  EXPECT_EQ(threads.size(), 6u);
  // 7 over 3 is 3, 2, 2; ranks 3 to 5 hold copies.
  EXPECT_THAT(seen, testing::UnorderedElementsAre(
                        "columns f32[4,7] [0:4, 0:3] rank 0", "columns f32[4,7] [0:4, 3:5] rank 1",
                        "columns f32[4,7] [0:4, 5:7] rank 2", "whole i32[5] [0:5] rank 0"));
}

TEST(Runtime, WhatARankWritesIntoItsPartIsTheVariableAndIsNotDrawnOnceItIsMarked) {
  HandMade made(mesh_of("dp=4"));
  made.variable("w", "f32[6@dp]", Initializer::normal(0, 1));
  Bench bench(std::move(made));
  bench.runtime().on_every_rank([&](Rank, std::span<const VariablePart> parts) {
    const Range range = parts[0].box.ranges[0];
    for (int64_t i = range.begin; i < range.end; ++i)
      reinterpret_cast<float*>(parts[0].data)[i - range.begin] = static_cast<float>(10 * i);
  });
  bench.runtime().mark_set("w");
  bench.runtime().initialize(bench.program(), 1);
  EXPECT_THAT(list<float>(bench.runtime().variable("w")), ElementsAre(0, 10, 20, 30, 40, 50));
}

TEST(Runtime, WhatARankThrowsOutsideOfAStepComesOutAndTheRuntimeGoesOn) {
  Bench bench(summed_update("dp=4", 4));
  bench.runtime().initialize(bench.program(), 1);
  try {
    bench.runtime().on_every_rank([](Rank rank, std::span<const VariablePart>) {
      if (rank >= 2)
        throw UserError("rank " + std::to_string(rank), "why", "fix", ExitCode::kBadData);
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), "rank 2");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
  EXPECT_NO_THROW(bench.step());
}

TEST(Runtime, ReplicasThatDifferAreFound) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[4@dp]");
  const RegisterIndex w = made.variable("w", "f32[2]");
  made.update("w.next", call("binary.add"), {w, x},
              w);  // each rank adds a part of its own to what should be one value
  Bench bench(std::move(made));
  EXPECT_NO_THROW(bench.runtime().variable("w"));
  EXPECT_NO_THROW(bench.runtime().check_replicas());
  bench.step();
  EXPECT_THROW(bench.runtime().variable("w"), InternalError);
  try {
    bench.runtime().check_replicas();
    FAIL() << "rank 1 added another part";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), "the replicas of variable 'w' differ");
    EXPECT_EQ(error.why(),
              "rank 1 does not hold the bits that rank 0 holds, though both computed the same");
  }
}

TEST(Runtime, ProgramsShareVariablesByName) {
  Bench bench(summed_update("dp=2", 2));
  bench.runtime().initialize(bench.program(), 1);
  bench.step();
  HandMade reader(bench.graph().meshes.front());
  const RegisterIndex w = reader.variable("w", "f32[600]", Initializer::normal(0, 1));
  reader.result("twice", reader.compute("twice", call("scalar.mul", {2}), {w}, "f32[600]"));
  LoadedProgram& read = bench.runtime().load(std::make_shared<TaskGraph>(reader.finish()));
  bench.runtime().initialize(read, 2);  // changes nothing: w is set
  TensorMap results;
  for (int step = 0; step < 2; ++step) {
    std::vector<float> expected;
    for (float value : bench.result("w").values<float>()) expected.push_back(value * 2);
    bench.runtime().run(read, {}, results);
    EXPECT_EQ(list<float>(results.at("twice")), expected);
    bench.step();  // the programs alternate
  }
  HandMade other(bench.graph().meshes.front());
  other.variable("w", "f32[600@dp]");
  EXPECT_THROW(bench.runtime().load(std::make_shared<TaskGraph>(other.finish())), InternalError);
}

TEST(Runtime, PeakIsArenaAndVariablesOfOneRank) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[30@dp]");  // 15 x 4 = 60 bytes, in an arena of 64
  made.variable("w", "f32[5@dp]");                        // 3 x 4 = 12 bytes on rank 0
  made.result("x", x);
  EXPECT_EQ(Bench(std::move(made)).runtime().peak_bytes(), Bytes(64 + 12));
}

/// A program on one mesh that gives `elements` numbers times 2, with an arena of twice as many.
HandMade doubled(const MeshPtr& mesh, int elements) {
  HandMade made(mesh);
  const std::string type = "f32[" + std::to_string(elements) + "]";
  made.result("y", made.compute("y", call("scalar.mul", {2}), {made.input("x", type)}, type));
  return made;
}

// One program runs at a time, so that a second one needs only what the first one has not.
TEST(Runtime, ProgramsShareArenas) {
  const MeshPtr mesh = mesh_of("dp=2");
  Bench bench(doubled(mesh, 160));
  EXPECT_EQ(bench.runtime().peak_bytes(), Bytes(2 * 160 * 4));
  for (const int elements : {16, 160, 320}) {
    SCOPED_TRACE(elements);
    LoadedProgram& other =
        bench.runtime().load(std::make_shared<TaskGraph>(doubled(mesh, elements).finish()));
    const Tensor x = drawn("other x", {DType::kF32, {elements}});
    std::vector<float> expected;
    for (float value : x.values<float>()) expected.push_back(2 * value);
    for (int step = 0; step < 2; ++step) {
      bench.step();  // the programs alternate
      TensorMap results;
      bench.runtime().run(other, {{"x", &x}}, results);
      EXPECT_EQ(list<float>(results.at("y")), expected);
    }
    EXPECT_EQ(bench.runtime().peak_bytes(),
              Bytes(2 * 160 * 4 + (elements > 160 ? 2 * 320 * 4 : 0)));
  }
}

TEST(Runtime, RepeatedRunsGiveTheSameBits) {
  HandMade made(mesh_of("dp=4"));
  const RegisterIndex addend = feed_anything(made, "x", "f32[3000] {partial sum: dp}");
  made.result("sum", made.reshard("sum", addend, "f32[3000]"));
  Bench bench(std::move(made));
  bench.step();
  const auto first = bytes_of(bench.result("sum"));
  for (int run = 0; run < 50; ++run) {
    bench.step();
    ASSERT_EQ(bytes_of(bench.result("sum")), first) << "run " << run;
  }
}

// Ranks that share cores must not keep them while they wait. The steps are so many that a rank
// which spins beside 15 others takes longer than a test may: 480 messages a step, 24000 in all.
TEST(Runtime, SixteenRanksOnFewCoresDoNotCrawl) {
  Bench bench(summed_update("dp=16", 16));
  for (int step = 0; step < 50; ++step) bench.step();
  EXPECT_TRUE(bench.runtime().is_quiescent(bench.program()));
}

/// Gathers y = 2 x, and writes z = 3 gathered over the memory of y, which slower ranks have not
/// read yet.
HandMade gathered_and_written_over() {
  HandMade made(mesh_of("dp=4"));
  const RegisterIndex x = made.input("x", "f32[64@dp]");
  const RegisterIndex y = made.compute("y", call("scalar.mul", {2}), {x}, "f32[64@dp]");
  made.compute("delay", call("scalar.mul", {1}), {x}, "f32[64@dp]");
  const RegisterIndex all = made.exchange("gather", y, "f32[64]");
  const RegisterIndex mine = made.exchange("slice", all, "f32[64@dp]");
  const RegisterIndex z = made.compute("z", call("scalar.mul", {3}), {mine}, "f32[64@dp]");
  TaskGraph& graph = made.graph();
  graph.registers.offset(z) = graph.registers.offset(y);
  graph.tasks.overwrites(graph.tasks.end_index() - 1) = {y};
  made.result("all", all);
  made.result("z", z);
  return made;
}

TEST(Runtime, WhatOthersStillReadIsNotWrittenOver) {
  Bench bench(gathered_and_written_over());
  std::vector<float> twice, six_times;
  for (float value : bench.input("x").values<float>()) {
    twice.push_back(value * 2);
    six_times.push_back(value * 2 * 3);
  }
  constexpr RegisterIndex kDelay(2), kAll(3), kMine(4), kZ(5);
  Rank slow = 0;
  std::atomic<int> next_to_write{0}, written{0}, written_too_early{0};
  std::atomic<bool> has_read{false};
  const Observer observer = [&](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    if (rank != slow) {
      if (reg == kMine) ++next_to_write;
      if (reg != kZ) return;
      ++written;
      if (!has_read) ++written_too_early;
      return;
    }
    if (reg == kAll) has_read = true;
    if (reg != kDelay) return;
    EXPECT_TRUE(comes_true([&] { return next_to_write == 3; }));
    EXPECT_TRUE(stays_false([&] { return written > 0; }));
  };
  for (int step = 0; step < 12; ++step) {
    slow = step % 4;
    has_read = false;
    next_to_write = written = 0;
    bench.step(&observer);
    EXPECT_EQ(written_too_early, 0) << "rank " << slow << " was not done with y";
    ASSERT_EQ(list<float>(bench.result("all")), twice) << "rank " << slow << " was slow";
    ASSERT_EQ(list<float>(bench.result("z")), six_times) << "rank " << slow << " was slow";
  }
}

TEST(Runtime, TheObserverSeesEveryFilledRegisterOfEveryRank) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[4@dp]");
  made.variable("w", "f32[2]");
  const RegisterIndex y = made.compute("y", call("scalar.mul", {2}), {x}, "f32[4@dp]");
  made.result("all", made.exchange("gather", y, "f32[4]"));
  Bench bench(std::move(made));
  std::array<std::vector<RegisterIndex>, 2> seen;
  const Observer observer = [&](Rank rank, RegisterIndex reg, const Coordinate& coordinate,
                                const std::byte*) {
    EXPECT_EQ(coordinate, (Coordinate{rank}));
    seen[rank].push_back(reg);
  };
  bench.step(&observer);
  EXPECT_THAT(seen[0],
              ElementsAre(RegisterIndex(0), RegisterIndex(1), RegisterIndex(2), RegisterIndex(3)));
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(Runtime, VariablesWithoutInitialValuesAreRefusedByName) {
  for (const bool in_halves : {false, true}) {
    Bench bench(summed_update("dp=2", 2));
    const auto act = [&] {
      in_halves ? bench.begin_with_given_variables() : bench.step_with_given_variables();
    };
    EXPECT_EQ(error_testing::message_of(ExitCode::kUsage, act),
              "variable 'w' has no initial value\n"
              "  why: a program computes with its variables from the first step on\n"
              "  fix: call Runtime::initialize(program, seed) or set_variable() before the first "
              "step");
    bench.runtime().set_variable("w", drawn("w", {DType::kF32, {600}}));
    EXPECT_NO_THROW(bench.step());
  }
}

TEST(Runtime, EveryVariableNeedsAValue) {
  HandMade made(mesh_of("dp=2"));
  made.variable("v", "f32[2]");
  made.variable("w", "f32[2]");
  made.result("v", RegisterIndex(0));
  Bench bench(std::move(made));
  bench.runtime().set_variable("v", Tensor({DType::kF32, {2}}));
  EXPECT_THAT(
      error_testing::message_of(ExitCode::kUsage, [&] { bench.step_with_given_variables(); }),
      HasSubstr("variable 'w' has no initial value"));
  bench.runtime().initialize(bench.program(), 1);
  EXPECT_NO_THROW(bench.step());
}

TEST(Runtime, AMissingOrWrongInputIsAMistakeOfTheCallerAndStopsNothing) {
  Bench bench(summed_update("dp=2", 2));
  TensorMap results;
  try {
    bench.runtime().run(bench.program(), {}, results);
    FAIL() << "an input is missing";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kMissingInput);
    EXPECT_THAT(error.what(), HasSubstr("input 'x' is missing"));
  }
  const Tensor other = drawn("x", {DType::kF32, {3}});
  EXPECT_THROW(bench.runtime().run(bench.program(), {{"x", &other}}, results), UserError);
  EXPECT_NO_THROW(bench.step());
}

TEST(Worker, HandsOverWhatItsWorkThrows) {
  Worker failing([] { throw std::runtime_error("no such file"); });
  EXPECT_THROW(failing.join(), std::runtime_error);
  bool done = false;
  Worker working([&] { done = true; });
  working.join();
  EXPECT_TRUE(done);
}

TEST(Worker, EndsWithItsObject) {
  std::atomic<bool> done{false};
  {
    std::atomic<bool> is_ending{false};
    Worker worker([&] {
      comes_true([&] { return is_ending.load(); });
      done = true;
    });
    const AtEnd ends([&] { is_ending = true; });  // the work does not end before
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace tessera
