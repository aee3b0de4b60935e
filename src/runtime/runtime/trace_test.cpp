// The events that a runtime records of its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
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
using testing::ElementsAre;

/// x is partial over two ranks, y is its sum on both, z = 2 y.
HandMade sum_over_two() {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = feed_anything(made, "x", "f32[6] {partial sum: dp}");
  const RegisterIndex y = made.exchange("sum y", x, "f32[6]");
  made.result("z", made.compute("z", {"scalar.mul", {}, {2}, ""}, {y}, "f32[6]"));
  return made;
}

bool is_act(const Span& span) {
  return span.kind == Span::Kind::kAct || span.kind == Span::Kind::kCopy;
}

/// "act x.partial 0": kind, name and iteration.
std::vector<std::string> acts_of(const Track& track) {
  std::vector<std::string> list;
  for (const Span& span : track.spans)
    if (is_act(span))
      list.push_back(std::string(to_text(span.kind)) + " " + span.name + " " +
                     std::to_string(span.iteration));
  return list;
}

TEST(Trace, HasEveryActOfEveryRankInTheOrderOfTheProgram) {
  Bench bench(sum_over_two());
  bench.step();
  bench.runtime().start_trace();
  bench.step();
  bench.step();
  const Timeline timeline = bench.runtime().stop_trace();
  ASSERT_EQ(timeline.tracks.size(), 2U);
  EXPECT_EQ(timeline.lost, 0);
  for (const Track& track : timeline.tracks)
    EXPECT_THAT(
        acts_of(track),
        ElementsAre("copy feed 1", "act x.partial 1", "copy sum y 1", "act z 1", "copy fetch 1",  //
                    "copy feed 2", "act x.partial 2", "copy sum y 2", "act z 2", "copy fetch 2"));
}

TEST(Trace, SpansOfARankAreNestedOrApart) {
  Bench bench(sum_over_two());
  bench.runtime().start_trace();
  for (int step = 0; step < 20; ++step) bench.step();
  for (const Track& track : bench.runtime().stop_trace().tracks) {
    std::vector<Span> open;
    for (const Span& span : track.spans) {
      EXPECT_LE(span.begin, span.end);
      while (!open.empty() && open.back().end <= span.begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(span.end, open.back().end)
            << span.name << " and " << open.back().name << " overlap";
        EXPECT_EQ(span.kind, Span::Kind::kKernel)
            << span.name << ": only kernels stand inside of acts here";
      }
      open.push_back(span);
    }
  }
}

/// Every message of five steps of sum_over_two().
void expect_messages_from_act_to_act(const Timeline& timeline) {
  const auto within = [&](size_t track, const std::string& name, Seconds time) {
    const std::vector<Span>& spans = timeline.tracks[track].spans;
    return std::any_of(spans.begin(), spans.end(), [&](const Span& span) {
      return is_act(span) && span.name == name && span.begin <= time && time <= span.end;
    });
  };
  int ready = 0, returned = 0;
  for (const TimedMessage& message : timeline.messages) {
    EXPECT_NE(message.from, message.to);
    EXPECT_LE(message.sent, message.arrived);
    EXPECT_EQ(message.name, "x.partial");
    if (message.kind == TimedMessage::Kind::kReleased) {
      ++returned;
      EXPECT_TRUE(within(message.from, "sum y", message.sent));
      continue;
    }
    ++ready;
    EXPECT_TRUE(within(message.from, "x.partial", message.sent));
    EXPECT_TRUE(within(message.to, "sum y", message.used));
    EXPECT_LE(message.arrived, message.used);
  }
  EXPECT_EQ(ready, 2 * 5) << "each rank tells the other that its partial value is ready";
  EXPECT_GE(returned, 2 * 4) << "and releases the other's; in the last step perhaps after its end";
}

TEST(Trace, AMessageGoesFromTheActThatMadeARegisterToTheActThatReadsIt) {
  Bench bench(sum_over_two());
  bench.runtime().start_trace();
  for (int step = 0; step < 5; ++step) bench.step();
  expect_messages_from_act_to_act(bench.runtime().stop_trace());
}

TEST(Trace, OfSeveralMembersTheFirstGetsWhatAllDid) {
  testing_transport::on_processes(
      make_local_transports(2, 3, 1), [](std::unique_ptr<Transport> mine) {
        Bench bench(sum_over_two(), {.network = std::make_shared<ProcessNetwork>(std::move(mine))});
        bench.step();
        bench.runtime().start_trace();
        for (int step = 0; step < 5; ++step) bench.step();
        const Timeline timeline = bench.runtime().stop_trace();
        if (!bench.runtime().is_leader()) {
          EXPECT_TRUE(timeline.tracks.empty());
          return;
        }
        ASSERT_EQ(timeline.tracks.size(), 2U);
        for (Rank rank = 0; rank < 2; ++rank) {
          const Track& track = timeline.tracks[rank];
          EXPECT_EQ(track.rank, rank);
          EXPECT_THAT(acts_of(track), testing::SizeIs(5 * 5))
              << "feed, x.partial, sum y, z and fetch";
        }
        expect_messages_from_act_to_act(timeline);
      });
}

TEST(Trace, AfterAFailureEachMemberGetsItsOwn) {
  std::barrier all_trace(2);
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    Bench bench(sum_over_two(), {.network = network});
    bench.step();
    bench.runtime().start_trace();
    all_trace.arrive_and_wait();  // a failure would end the step before as well
    const Observer broken = [](Rank rank, RegisterIndex, const Coordinate&, const std::byte*) {
      if (rank == 1) throw std::runtime_error("broken");
    };
    EXPECT_THROW(bench.step(&broken), InternalError);
    const Timeline timeline = bench.runtime().stop_trace();
    ASSERT_EQ(timeline.tracks.size(), 1U);
    EXPECT_EQ(timeline.tracks[0].rank, network->process());
  });
}

TEST(Trace, AWaitIsNamedAfterTheTaskThatCouldNotBegin) {
  Bench bench(sum_over_two());
  const auto is_partial = [&](RegisterIndex reg) {
    return bench.graph().registers[reg].name == "x.partial";
  };
  // Rank 0 is late with its partial value: when rank 1 has its own, which has nothing to do then
  // but to wait. The machine may run rank 1 late, so rank 0 is later in each step.
  std::atomic<bool> is_next_to_wait{false};
  std::chrono::milliseconds lateness(1);
  const Observer late = [&](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    if (!is_partial(reg)) return;
    if (rank == 1) is_next_to_wait = true;
    if (rank == 1) return;
    comes_true([&] { return is_next_to_wait.load(); });
    std::this_thread::sleep_for(lateness);
  };
  const auto has_waited = [&] {
    is_next_to_wait = false;
    bench.runtime().start_trace();
    bench.step(&late);
    const std::vector<Span> spans = bench.runtime().stop_trace().tracks[1].spans;
    return std::any_of(spans.begin(), spans.end(), [](const Span& span) {
      return span.kind == Span::Kind::kWait && span.name == "sum y";
    });
  };
  for (; !has_waited(); lateness *= 2)
    ASSERT_LT(lateness, std::chrono::minutes(1)) << "no wait for the sum is in the trace";
}

TEST(Trace, WhatFindsNoRoomIsCounted) {
  Bench bench(sum_over_two());
  bench.runtime().start_trace(4);
  bench.step();
  const Timeline timeline = bench.runtime().stop_trace();
  EXPECT_THAT(timeline.tracks[0].spans, testing::SizeIs(4));
  EXPECT_GE(timeline.lost, 2 * 3) << "two kernels inside of five acts, on each rank";
}

TEST(Trace, EndsWhereItIsStoppedAndBeginsAnew) {
  Bench bench(sum_over_two());
  bench.runtime().start_trace();
  bench.step();
  EXPECT_THAT(acts_of(bench.runtime().stop_trace().tracks[0]), testing::SizeIs(5));
  bench.step();
  bench.runtime().start_trace();
  const Timeline empty = bench.runtime().stop_trace();
  EXPECT_TRUE(empty.tracks[0].spans.empty());
  EXPECT_TRUE(empty.messages.empty());
}

}  // namespace
}  // namespace tessera
