#include "simulator/clock/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

int64_t milliseconds(Seconds time) {
  return std::llround(time.value() * 1e3);
}

/// x on two ranks; y is computed from x, z is the sum of both y, and w is computed from z.
std::shared_ptr<const TaskGraph> two_ranks() {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=2")));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  const RegisterIndex y = made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, "f32[8@dp]");
  const RegisterIndex z = made.exchange("gather", y, "f32[8]");
  made.result("w", made.compute("w", {"scalar.mul", {}, {2}, ""}, {z}, "f32[8]"));
  return std::make_shared<const TaskGraph>(made.finish());
}

/// y takes 10 ms on rank 0 and 30 ms on rank 1, the exchange 4 ms, w 20 ms.
Simulation simulate_simulated(const SimulateOptions& options = {}) {
  const auto graph = two_ranks();
  const auto time = [&](Rank rank, TaskId id) {
    const std::string& name = graph->tasks[id].name;
    if (name == "y") return Seconds(rank == 0 ? 0.010 : 0.030);
    if (name == "gather") return Seconds(0.004);
    return Seconds(name == "w" ? 0.020 : 0);
  };
  return simulate(graph, time, options);
}

TEST(Simulate, AStepTakesAsLongAsItsLongestPath) {
  EXPECT_EQ(milliseconds(simulate_simulated().step), 30 + 4 + 20);
}

TEST(Simulate, ARankWorksExchangesOrIsIdle) {
  const Simulation run = simulate_simulated();
  ASSERT_EQ(run.ranks.size(), 2U);
  EXPECT_EQ(milliseconds(run.ranks[0].compute), 10 + 20);
  EXPECT_EQ(milliseconds(run.ranks[1].compute), 30 + 20);
  EXPECT_EQ(milliseconds(run.ranks[0].exchange), 4);
  // The span is from the begin of y to the end of w, with 20 ms of waiting and the exchange.
  EXPECT_EQ(milliseconds(run.ranks[0].span), 54);
  EXPECT_EQ(milliseconds(run.ranks[0].idle_in_span), 24);
  EXPECT_DOUBLE_EQ(run.ranks[0].bubble_of_span(), 24.0 / 54);
  EXPECT_NEAR(run.bubble(), 1 - (30.0 + 50) / (2 * 54), 1e-12);
}

TEST(Simulate, AnExchangeIsExposedWhileNoKernelRuns) {
  EXPECT_EQ(milliseconds(simulate_simulated().ranks[0].exposed), 4);
}

TEST(Simulate, AStragglerTakesItsFactorOfEachFixedTime) {
  // y takes 10 ms on rank 0, the exchange 4 ms, w 20 ms: four times as long, and rank 1 waits.
  const Simulation run = simulate_simulated({.stragglers = {{0, 4}}});
  EXPECT_EQ(milliseconds(run.step), 4 * (10 + 4 + 20));
  EXPECT_EQ(milliseconds(run.ranks[0].compute), 4 * (10 + 20));
  EXPECT_EQ(milliseconds(run.ranks[1].compute), 30 + 20);
}

TEST(Simulate, MessagesTakeTheirTime) {
  EXPECT_EQ(milliseconds(simulate_simulated({.message = Seconds(0.005)}).step), 30 + 5 + 4 + 20);
}

/// x is gathered, then three kernels do not use it, and then one does. The gather may be issued
/// after the feed.
Simulation gathering_behind_kernels(bool ahead) {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=2")));
  const KernelCall call{"scalar.mul", {}, {2}, ""};
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  RegisterIndex y = x;
  for (const char* name : {"a", "b", "c"}) y = made.compute(name, call, {y}, "f32[8@dp]");
  const RegisterIndex z = made.exchange("gather", x, "f32[8]");
  made.result("y", y);
  made.result("d", made.compute("d", call, {z}, "f32[8]"));
  TaskGraph graph = made.finish();
  for (TaskId task : graph.tasks.indices())
    if (graph.tasks[task].kind == Task::Kind::kExchange)
      graph.tasks.instance(task).issue_after = TaskId(0);
  const auto shared = std::make_shared<const TaskGraph>(std::move(graph));
  const auto time = [&](Rank, TaskId id) {
    const Task& task = shared->tasks[id];
    return Seconds(task.kind == Task::Kind::kCompute    ? 0.010
                   : task.kind == Task::Kind::kExchange ? 0.025
                                                        : 0);
  };
  return simulate(shared, time, {.prefetch_exchanges = ahead});
}

TEST(Simulate, PrefetchedExchangesOverlapKernels) {
  EXPECT_EQ(milliseconds(gathering_behind_kernels(false).step), 3 * 10 + 25 + 10);
  EXPECT_EQ(milliseconds(gathering_behind_kernels(true).step), 3 * 10 + 10);
}

TEST(Simulate, APrefetchedExchangeBehindKernelsIsNotExposed) {
  EXPECT_EQ(milliseconds(gathering_behind_kernels(false).ranks[0].exposed), 25);
  EXPECT_EQ(milliseconds(gathering_behind_kernels(true).ranks[0].exposed), 0);
  EXPECT_EQ(milliseconds(gathering_behind_kernels(true).ranks[0].exchange), 25);
}

// ---- jitter ----

constexpr int64_t kMillisecond = 1'000'000;

/// The durations, in nanoseconds, of y and of the exchange on rank 0, step by step. y takes 1 ms of
/// fixed time, and the exchange moves 1 ms of bytes.
std::pair<std::vector<double>, std::vector<double>> durations(double jitter, uint64_t seed) {
  const auto graph = two_ranks();
  const Demands demands{.resources = {{"link", 1'000'000'000}},
                        .demand =
                            [&](Rank rank, TaskId id) {
                              const std::string& name = graph->tasks[id].name;
                              if (name == "y" && rank == 0) return ActDemand{kMillisecond, {}};
                              if (name == "gather" && rank == 0)
                                return ActDemand{0, {{kMillisecond, {{ResourceId(0)}}}}};
                              return ActDemand{};
                            },
                        .jitter = [&](Rank, TaskId) { return jitter; }};
  const Simulation run = simulate(graph, demands, {.steps = 2000, .seed = seed});
  std::pair<std::vector<double>, std::vector<double>> found;
  for (const Span& span : run.timeline.tracks[0].spans) {
    const double duration = (span.end - span.begin).value() * 1e9;
    if (span.name == "y") found.first.push_back(std::round(duration));
    if (span.name == "gather" && span.kind == Span::Kind::kCopy)
      found.second.push_back(std::round(duration));
  }
  return found;
}

TEST(Simulate, JitterHasTheGivenRelativeDeviationAndTheMeanOfTheDemand) {
  const std::vector<double> list = durations(0.2, 1).first;
  ASSERT_EQ(list.size(), 2000U);
  double sum = 0, squares = 0;
  for (double duration : list) sum += duration / kMillisecond;
  const double mean = sum / 2000;
  for (double duration : list) squares += std::pow(duration / kMillisecond - mean, 2);
  // Five standard errors: of a mean 0.2 / sqrt(2000), of a deviation about 0.2 / sqrt(2 * 2000) and
  // some more, since the distribution is not normal.
  EXPECT_NEAR(mean, 1, 5 * 0.2 / std::sqrt(2000));
  EXPECT_NEAR(std::sqrt(squares / 1999), 0.2, 8 * 0.2 / std::sqrt(4000));
}

TEST(Simulate, JitterDoesNotChangeTheBytesOfAnAct) {
  const std::vector<double> list = durations(0.2, 1).second;
  EXPECT_EQ(list, std::vector<double>(2000, kMillisecond));
}

TEST(Simulate, JitterDependsOnlyOnTheSeed) {
  EXPECT_EQ(durations(0.2, 7), durations(0.2, 7));
  EXPECT_NE(durations(0.2, 7), durations(0.2, 8));
  EXPECT_EQ(durations(0, 7), durations(0, 8));
}

TEST(Simulate, WithoutABarrierTheFasterRankBeginsTheNextStep) {
  // Rank 1 is idle only in its exchange, so a step takes 54 ms. Rank 0 computes its next y
  // meanwhile.
  const Simulation run = simulate_simulated({.steps = 4, .barrier_between_steps = false});
  EXPECT_EQ(milliseconds(run.step), 54);
  const std::vector<Span>& spans = run.timeline.tracks[0].spans;
  const auto second = std::find_if(spans.begin(), spans.end(), [](const Span& span) {
    return span.name == "y" && span.iteration == 1;
  });
  ASSERT_NE(second, spans.end());
  EXPECT_EQ(milliseconds(second->begin), 54);
}

TEST(Simulate, TheTimelineHasActsWaitsAndMessages) {
  const Simulation run = simulate_simulated({.steps = 1});
  std::vector<std::string> spans;
  for (const Span& span : run.timeline.tracks[0].spans)
    spans.push_back(std::string(to_text(span.kind)) + " " + span.name + " " +
                    std::to_string(milliseconds(span.begin)) + "-" +
                    std::to_string(milliseconds(span.end)));
  EXPECT_EQ(spans,
            (std::vector<std::string>{"copy feed 0-0", "act y 0-10", "wait gather 10-30",
                                      "copy gather 30-34", "act w 34-54", "copy fetch 54-54"}));
  int ready = 0;
  for (const TimedMessage& message : run.timeline.messages)
    if (message.kind == TimedMessage::Kind::kReady) {
      ++ready;
      EXPECT_EQ(message.name, "y");
      EXPECT_EQ(milliseconds(message.sent), message.from == 0 ? 10 : 30);
      EXPECT_EQ(milliseconds(message.used), 30);
    }
  EXPECT_EQ(ready, 2);
}

}  // namespace
}  // namespace tessera
