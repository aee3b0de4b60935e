// The critical path and the live ranges of a simulated step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "simulator/clock/simulate.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

const KernelCall kTwice{"scalar.mul", {}, {2}, ""};

/// x on two ranks; y is computed from x, z gathers both y, and w is computed from z.
std::shared_ptr<const TaskGraph> ranks_that_exchange() {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=2")));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  const RegisterIndex y = made.compute("y", kTwice, {x}, "f32[8@dp]");
  const RegisterIndex z = made.exchange("gather", y, "f32[8]");
  made.result("w", made.compute("w", kTwice, {z}, "f32[8]"));
  return std::make_shared<const TaskGraph>(made.finish());
}

/// y takes 10 ms on rank 0 and `slow` ms on rank 1, the gather 4 ms, w 20 ms.
Simulation simulated(const std::shared_ptr<const TaskGraph>& graph, int slow,
                     SimulateOptions options = {}) {
  const auto time = [&, slow](Rank rank, TaskId id) {
    const std::string& name = graph->tasks[id].name;
    if (name == "y") return Seconds(1e-3 * (rank == 0 ? 10 : slow));
    if (name == "gather") return Seconds(0.004);
    return Seconds(name == "w" ? 0.020 : 0);
  };
  options.has_path_and_memory = true;
  return simulate(graph, time, options);
}

std::string milliseconds_text(Seconds time) {
  return std::to_string(std::llround(time.value() * 1e3));
}

/// "1 y [0, 30)" for each act of the path that takes time, from the begin of the last step.
std::vector<std::string> path_of(const TaskGraph& graph, const Simulation& simulation) {
  const Seconds begin = simulation.end - simulation.step;
  std::vector<std::string> list;
  for (const CriticalAct& act : simulation.critical_path)
    if (act.begin < act.end)
      list.push_back(std::to_string(act.rank) + " " + graph.tasks[act.task].name + " [" +
                     milliseconds_text(act.begin - begin) + ", " +
                     milliseconds_text(act.end - begin) + ")");
  return list;
}

TEST(SimCriticalPath, PassesTheRankThatTheOthersWaitFor) {
  const auto graph = ranks_that_exchange();
  std::vector<std::string> path = path_of(*graph, simulated(graph, 30));
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0], "1 y [0, 30)");
  EXPECT_THAT(path[1], testing::EndsWith("gather [30, 34)"));
  EXPECT_THAT(path[2], testing::EndsWith("w [34, 54)"));
}

TEST(SimCriticalPath, StaysOnItsStreamWhereNothingElseIsLater) {
  const auto graph = ranks_that_exchange();
  EXPECT_THAT(path_of(*graph, simulated(graph, 5)),
              ElementsAre("0 y [0, 10)", "0 gather [10, 14)", "0 w [14, 34)"));
}

TEST(SimCriticalPath, LeavesTheLatencyOfAMessageBetweenTwoActs) {
  const auto graph = ranks_that_exchange();
  std::vector<std::string> path =
      path_of(*graph, simulated(graph, 30, {.message = Seconds(0.002)}));
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0], "1 y [0, 30)");
  EXPECT_EQ(path[1], "0 gather [32, 36)");
}

TEST(SimCriticalPath, AddsUpToTheStep) {
  const auto graph = ranks_that_exchange();
  for (bool barrier : {true, false})
    for (bool folds : {true, false}) {
      const Simulation run = simulated(
          graph, 30, {.steps = 4, .barrier_between_steps = barrier, .uses_rank_symmetry = folds});
      Seconds sum{0};
      const Seconds begin = run.end - run.step;
      for (const CriticalAct& act : run.critical_path) sum += act.end - std::max(act.begin, begin);
      EXPECT_NEAR(sum.value(), run.step.value(), 1e-9) << barrier << folds;
    }
}

/// "0 y [0, 34)", from the begin of the last step.
std::vector<std::string> live_of(const TaskGraph& graph, const Simulation& simulation) {
  const Seconds begin = simulation.end - simulation.step;
  std::vector<std::string> list;
  for (const LiveRange& range : simulation.live)
    list.push_back(std::to_string(range.rank) + " " + graph.registers[range.reg].name + " [" +
                   milliseconds_text(range.begin - begin) + ", " +
                   milliseconds_text(range.end - begin) + ")");
  return list;
}

TEST(LiveRanges, LastFromTheActThatFillsToTheLastReaderOnAnyRank) {
  // Both ranks read y of both until the gather ends at 34 ms.
  const auto graph = ranks_that_exchange();
  EXPECT_THAT(live_of(*graph, simulated(graph, 30)),
              IsSupersetOf({"0 x [0, 10)", "1 x [0, 30)", "0 y [0, 34)", "1 y [0, 34)",
                            "0 gather [*] [30, 54)", "1 gather [*] [30, 54)"}));
}

TEST(LiveRanges, OfRepresentedRanksAreThoseOfTheSimulatedOne) {
  const auto graph = ranks_that_exchange();
  EXPECT_THAT(live_of(*graph, simulated(graph, 10, {.uses_rank_symmetry = true})),
              testing::UnorderedElementsAre("0 x [0, 10)", "0 y [0, 14)", "0 gather [*] [10, 34)",
                                            "0 w [14, 34)"));
}

TEST(LiveRanges, AndThePathAreFoundWithoutATimelineToo) {
  const auto graph = ranks_that_exchange();
  const Simulation with = simulated(graph, 30),
                   without = simulated(graph, 30, {.has_timeline = false});
  EXPECT_EQ(path_of(*graph, with), path_of(*graph, without));
  EXPECT_EQ(live_of(*graph, with), live_of(*graph, without));
  EXPECT_TRUE(simulate(graph, Demands{.demand = [](Rank, TaskId) { return ActDemand{1, {}}; }})
                  .critical_path.empty());
}

}  // namespace
}  // namespace tessera
