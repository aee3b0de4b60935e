// Steps that follow each other without a pause: each has the results that it has alone, and an
// observer in between sees whole steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/testing/waits.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "runtime/runtime/testing/programs.h"

namespace tessera {
namespace {

using namespace testing_programs;
using testing::HasSubstr;

/// w += the sum over the ranks of x; the result is the new w.
HandMade steps_summing(const std::string& mesh) {
  HandMade made(mesh_of(mesh));
  const RegisterIndex x = feed_anything(made, "x", "f32[6] {partial sum: dp}");
  const RegisterIndex w = made.variable("w", "f32[6@dp]");
  const RegisterIndex sum = made.exchange("sum", x, "f32[6@dp]");
  made.result("w", made.update("w.next", {"binary.add", {}, {}, ""}, {w, sum}, w));
  return made;
}

/// y = 2 x, which each rank has in part, and the sum of the parts on each rank.
HandMade doubling_and_summing() {
  HandMade made(mesh_of("dp=2"));
  const std::string partial = "f32[6] {partial sum: dp}";
  const RegisterIndex x = feed_anything(made, "x", partial);
  const RegisterIndex y = made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, partial);
  made.result("sum", made.exchange("sum", y, "f32[6]"));
  return made;
}

/// y = 2 x on each rank.
HandMade doubling(const std::string& mesh) {
  HandMade made(mesh_of(mesh));
  made.result("y", made.compute("y", {"scalar.mul", {}, {2}, ""}, {made.input("x", "f32[8@dp]")},
                                "f32[8@dp]"));
  return made;
}
constexpr RegisterIndex kX(0);

TEST(Steps, ARankGoesOnWhileAnotherIsAtTheStepBefore) {
  Bench bench(doubling("dp=2"));
  std::atomic<bool> has_gone_on{false}, was_seen{false};
  const Observer first =
      at(1, kX, [&] { was_seen = comes_true([&] { return has_gone_on.load(); }); });
  const Observer second = at(0, kX, [&] { has_gone_on = true; });
  bench.begin(&first);
  bench.begin(&second);
  bench.end();
  EXPECT_TRUE(was_seen) << "rank 0 began the second step while rank 1 was at the first";
  bench.end();
}

TEST(Steps, EachGivesWhatItGivesAlone) {
  for (const std::string mesh : {"dp=1", "dp=3", "dp=8"}) {
    Bench alone(steps_summing(mesh)), together(steps_summing(mesh));
    std::vector<std::vector<std::byte>> expected, found;
    for (int step = 0; step < 6; ++step) {
      alone.step();
      expected.push_back(bytes_of(alone.result("w")));
    }
    together.begin();
    for (int step = 0; step < 6; ++step) {
      if (step < 5) together.begin();
      together.end();
      found.push_back(bytes_of(together.result("w")));
    }
    EXPECT_EQ(found, expected) << mesh;
    EXPECT_EQ(bytes_of(together.runtime().variable("w")), bytes_of(alone.runtime().variable("w")))
        << mesh;
    EXPECT_TRUE(together.runtime().is_quiescent(together.program())) << mesh;
  }
}

TEST(Steps, WhoLooksAtVariablesSeesAllStepsThatWereBegun) {
  Bench bench(steps_summing("dp=2"));
  Tensor& x = bench.input("x");
  std::ranges::fill(x.values<float>(), 1.0F);  // each step adds one for each rank
  bench.begin();
  bench.begin();
  EXPECT_EQ(list<float>(bench.runtime().variable("w")), std::vector<float>(6, 4));
  EXPECT_EQ(bench.runtime().steps_in_flight(), 2) << "they are done and not handed over";
  bench.runtime().set_variable("w", Tensor({DType::kF32, {6}}));
  bench.end();
  EXPECT_EQ(list<float>(bench.result("w")), std::vector<float>(6, 2));
  bench.begin();
  bench.end();
  EXPECT_EQ(list<float>(bench.result("w")), std::vector<float>(6, 4)) << "of the second step";
  bench.end();
  EXPECT_EQ(list<float>(bench.result("w")), std::vector<float>(6, 2))
      << "of the third, from what was set";
}

TEST(Steps, OfAnotherProgramBeginWhenAllBeforeAreDone) {
  Bench bench(doubling("dp=2"));
  const auto graph = std::make_shared<TaskGraph>(doubling("dp=2").finish());
  LoadedProgram& other = bench.runtime().load(graph);
  std::atomic<bool> has_looked{false}, is_done{false}, was_done{false}, was_given{false};
  const Observer slow = at(1, kX, [&] {
    EXPECT_TRUE(comes_true([&] { return was_given.load(); }));
    EXPECT_TRUE(stays_false([&] { return has_looked.load(); }));
    is_done = true;
  });
  const Observer looks = at(0, kX, [&] {
    has_looked = true;
    was_done = is_done.load();
  });
  TensorMap results;
  bench.begin(&slow);
  was_given = true;
  bench.runtime().begin_step(other, {{"x", &bench.input("x")}}, results, &looks);
  bench.end();
  bench.runtime().end_step();
  EXPECT_TRUE(has_looked);
  EXPECT_TRUE(was_done);
  EXPECT_EQ(bytes_of(results.at("y")), bytes_of(bench.result("y")));
}

TEST(Steps, AreRefusedWhenTooManyAreUnderWayOrNone) {
  Bench bench(doubling("dp=2"));
  EXPECT_THROW(bench.runtime().end_step(), InternalError);
  for (int i = 0; i < kMaxStepsInFlight; ++i) bench.begin();
  EXPECT_THROW(bench.begin(), InternalError);
  EXPECT_THROW(bench.step(), InternalError);
  for (int i = 0; i < kMaxStepsInFlight; ++i) EXPECT_NO_THROW(bench.runtime().end_step());
  EXPECT_NO_THROW(bench.step());
}

TEST(Steps, ARuntimeThatGoesLetsThemEnd) {
  std::atomic<int> acts{0};
  std::atomic<bool> is_going{false};
  const Observer counts = [&](Rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    comes_true([&] { return is_going.load(); });
    if (reg == kX) ++acts;
  };
  const auto graph = std::make_shared<TaskGraph>(doubling("dp=4").finish());
  const Tensor x = drawn("x", {DType::kF32, {8}});
  std::array<TensorMap, 2> results;
  {
    Runtime runtime(graph->meshes.front());
    LoadedProgram& program = runtime.load(graph);
    const AtEnd goes([&] { is_going = true; });  // no act ends before
    for (TensorMap& given : results) runtime.begin_step(program, {{"x", &x}}, given, &counts);
  }
  EXPECT_EQ(acts, 8);
}

TEST(Steps, ATraceHoldsThemSideBySide) {
  Bench bench(doubling("dp=2"));
  std::atomic<bool> has_gone_on{false};
  const Observer first = at(1, kX, [&] { comes_true([&] { return has_gone_on.load(); }); });
  const Observer second = at(0, kX, [&] { has_gone_on = true; });
  bench.runtime().start_trace();
  bench.begin(&first);
  bench.begin(&second);
  const Timeline timeline = bench.runtime().stop_trace();  // waits for both
  const auto bounds = [&](size_t rank, int64_t iteration) {
    Seconds begin{1e9}, end{0};
    for (const Span& span : timeline.tracks.at(rank).spans) {
      if (span.iteration != iteration) continue;
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    return std::pair(begin, end);
  };
  EXPECT_LT(bounds(0, 1).first, bounds(1, 0).second)
      << "the second step of rank 0 began before the first one of rank 1 ended";
  EXPECT_LE(bounds(1, 0).second, bounds(1, 1).first) << "a rank does one step after the other";
}

// ---- failures ----

std::string steps_failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Steps, AFailureEndsAllThatAreUnderWay) {
  for (const bool in_second : {false, true}) {
    Bench bench(doubling("dp=2"));
    std::atomic<int> acts_after{0};
    // Rank 0 fails at x of its first or its second step, while rank 1 is kept at the first one.
    const Observer waits = at(1, kX, [&] { comes_true([&] { return bench.runtime().failed(); }); });
    const Observer fails = at(0, kX, [] { throw std::runtime_error("broken"); });
    const Observer both = [&](Rank rank, RegisterIndex reg, const Coordinate& coordinate,
                              const std::byte* data) {
      waits(rank, reg, coordinate, data);
      if (!in_second) fails(rank, reg, coordinate, data);
    };
    const Observer later = [&](Rank rank, RegisterIndex reg, const Coordinate& coordinate,
                               const std::byte* data) {
      if (rank == 1) ++acts_after;
      if (in_second) fails(rank, reg, coordinate, data);
    };
    bench.begin(&both);
    const std::string expected = "internal error: rank 0, task 'feed': broken";
    EXPECT_EQ(steps_failure_of([&] {
                bench.begin(&later);
                bench.end();
              }),
              expected);
    EXPECT_EQ(bench.runtime().steps_in_flight(), 0) << "all ranks rest";
    EXPECT_EQ(acts_after, 0) << "rank 1 began nothing after it";
    EXPECT_EQ(steps_failure_of([&] { bench.begin(); }), expected) << "every later call throws too";
    EXPECT_EQ(steps_failure_of([&] { bench.end(); }), expected);
    EXPECT_EQ(steps_failure_of([&] { bench.runtime().variable("w"); }), expected);
  }
}

TEST(Steps, ADeadlineInALaterStepNamesWhoWaits) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  // With two slots, x of the second step waits for no reader of the first one.
  RegisterForm& reg = made.graph().registers.form(x);
  reg.slots = 2;
  made.graph().arenas.front() += Bytes(slot_stride(reg).value());
  const RegisterIndex next = made.compute("next", {"scalar.mul", {}, {2}, ""}, {x}, "f32[8@dp]");
  const RegisterIndex all = made.exchange("gather x", x, "f32[8]");
  made.result("all", all);
  made.result("next", next);
  Bench bench(std::move(made), {.deadline = Seconds(0.05)});
  // The deadline is short, so nothing but the gather of the second step may wait. In the first
  // step, both ranks have sent x when they come to the gather. In the second, rank 0 comes to it
  // when rank 1 is at x, where it stays.
  std::barrier both_have_sent(2);
  std::atomic<bool> stays{false};
  const Observer first = [&](Rank, RegisterIndex filled, const Coordinate&, const std::byte*) {
    if (filled == next) both_have_sent.arrive_and_wait();
  };
  const Observer second =
      all_of({at(0, next, [&] { comes_true([&] { return stays.load(); }); }), at(1, x, [&] {
                stays = true;
                comes_true([&] { return bench.runtime().failed(); });
              })});
  bench.begin(&first);
  EXPECT_EQ(steps_failure_of([&] {
              bench.begin(&second);
              bench.end();
              bench.end();
            }),
            "internal error: rank 0, task 'gather x': waited 50 ms: waits for register 'x' from "
            "'feed' of rank 1, which is at task 'feed'");
}

// ---- several processes ----

void steps_on_networks(int members, int delays,
                       const std::function<void(const std::shared_ptr<ProcessNetwork>&)>& work) {
  testing_transport::on_processes(make_local_transports(members, delays, 1),
                                  [&](std::unique_ptr<Transport> mine) {
                                    work(std::make_shared<ProcessNetwork>(std::move(mine)));
                                  });
}

TEST(Steps, OfSeveralMembersGiveTheBitsOfThreads) {
  Bench alone(steps_summing("dp=4"));
  std::vector<std::vector<std::byte>> expected;
  for (int step = 0; step < 6; ++step) {
    alone.step();
    expected.push_back(bytes_of(alone.result("w")));
  }
  for (const int delays : {0, 10})
    steps_on_networks(2, delays, [&](const std::shared_ptr<ProcessNetwork>& network) {
      Bench bench(steps_summing("dp=4"), {.network = network});
      std::vector<std::vector<std::byte>> found;
      bench.begin();
      for (int step = 0; step < 6; ++step) {
        if (step < 5) bench.begin();
        if (step == 3) bench.runtime().check_replicas();
        bench.end();
        found.push_back(bytes_of(bench.result("w")));
      }
      EXPECT_EQ(found, expected) << "on member " << network->process();
    });
}

// What counts as kernels, as exchanges and as waits is tested with a simulated clock:
// step_stopwatch_test.cpp. Here, rank 0 stays in a kernel, and rank 1 has nothing to do but to wait
// for it. The machine may keep rank 1 in its kernel as well, so rank 0 stays longer each time.
TEST(Steps, TheTimeOfARankIsThatOfItsKernelsWithoutItsWaits) {
  constexpr RegisterIndex kY(1);
  Bench bench(doubling_and_summing());
  std::atomic<bool> is_next_to_wait{false};
  std::chrono::milliseconds stay(10);
  const Observer stays = [&](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    if (reg != kY) return;
    if (rank == 1) {
      is_next_to_wait = true;
    } else {
      comes_true([&] { return is_next_to_wait.load(); });
      std::this_thread::sleep_for(stay);
    }
  };
  for (bool has_waited = false; !has_waited; stay *= 2) {
    ASSERT_LT(stay, std::chrono::minutes(1)) << "the time for which rank 1 waits is not left out";
    is_next_to_wait = false;
    bench.begin(&stays);
    const Seconds time = bench.runtime().end_step();
    const RankTime mean = bench.runtime().mean_rank_time().value();
    const double half = std::chrono::duration<double>(stay).count() / 2;
    EXPECT_GE(mean.kernels.value(), half) << "rank 0 stays in a kernel";
    has_waited = (time - mean.kernels - mean.exposed).value() >= half * 0.8;
  }
}

TEST(Steps, AFailureOnAnotherMemberEndsAllThatAreUnderWay) {
  std::barrier all_have_loaded(2);
  steps_on_networks(2, 0, [&](const std::shared_ptr<ProcessNetwork>& network) {
    Bench bench(doubling("dp=2"), {.network = network});
    all_have_loaded.arrive_and_wait();  // a failure would end the loading as well
    const Observer waits = at(1, kX, [&] { comes_true([&] { return bench.runtime().failed(); }); });
    const Observer fails = at(0, kX, [] { throw std::runtime_error("broken"); });
    const std::string failure = steps_failure_of([&] {
      bench.begin(&waits);
      bench.begin(&fails);
      bench.end();
    });
    EXPECT_EQ(failure, "internal error: rank 0, task 'feed': broken");
    EXPECT_EQ(bench.runtime().steps_in_flight(), 0);
  });
}

}  // namespace
}  // namespace tessera
