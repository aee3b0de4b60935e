// A step without actors takes the times of the actors, to the nanosecond.
#include "simulator/clock/internal/step_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/clock/simulate.h"
#include "simulator/clock/testing/machine_demands.h"
#include "task_graph/tasks/testing/hand_made.h"
#include "task_graph/tasks/testing/random_program.h"

namespace tessera {
namespace {

/// The same simulation with the timeline, which needs the actors.
Simulation of_actors(const std::shared_ptr<const TaskGraph>& graph, const Demands& demands,
                     SimulateOptions options) {
  options.has_timeline = true;
  return simulate(graph, demands, options);
}
Simulation without_actors(const std::shared_ptr<const TaskGraph>& graph, const Demands& demands,
                          SimulateOptions options) {
  options.has_timeline = false;
  return simulate(graph, demands, options);
}

void expect_equal(const Simulation& found, const Simulation& wanted) {
  EXPECT_TRUE(found.timeline.tracks.empty());
  EXPECT_EQ(found.step, wanted.step);
  EXPECT_EQ(found.end, wanted.end);
  EXPECT_EQ(found.last_step, wanted.last_step);
  ASSERT_EQ(found.ranks.size(), wanted.ranks.size());
  for (size_t i = 0; i < found.ranks.size(); ++i) {
    EXPECT_EQ(found.ranks[i].rank, wanted.ranks[i].rank);
    EXPECT_EQ(found.ranks[i].representative, wanted.ranks[i].representative);
    EXPECT_EQ(found.ranks[i].compute, wanted.ranks[i].compute);
    EXPECT_EQ(found.ranks[i].exchange, wanted.ranks[i].exchange);
    EXPECT_EQ(found.ranks[i].exposed, wanted.ranks[i].exposed);
    EXPECT_EQ(found.ranks[i].span, wanted.ranks[i].span);
    EXPECT_EQ(found.ranks[i].idle_in_span, wanted.ranks[i].idle_in_span);
  }
}

TEST(StepRun, TakesTheTimesOfTheActorsInTheirThirdStep) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto graph =
        random_programs::RandomProgram(seed, {.ranks = 16, .meshes = 2, .works = 12}).graph();
    for (int variant = 0; variant < 8; ++variant) {
      const Demands demands = machine_demands(
          *graph, {.ranks_per_machine = 1 + variant % 4 * 5, .slow_axis = variant % 3 - 1});
      SimulateOptions options{.prefetch_exchanges = variant >= 4,
                              .uses_rank_symmetry = variant % 2 == 0};
      if (variant % 4 == 3) options.stragglers = {{ranks(*graph).back(), 1.5}};
      SCOPED_TRACE("RandomProgram(" + std::to_string(seed) + "), variant " +
                   std::to_string(variant));
      expect_equal(without_actors(graph, demands, options), of_actors(graph, demands, options));
    }
  }
}

TEST(StepRun, SimulatesOneActOfEachTaskWhateverTheSteps) {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=2")));
  const RegisterIndex x = made.input("x", "f32[64@dp]");
  made.result("y", made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, "f32[64@dp]"));
  const auto graph = std::make_shared<const TaskGraph>(made.finish());
  const Demands demands{.demand = [&](Rank, TaskId task) {
    return ActDemand{graph->tasks[task].kind == Task::Kind::kCompute ? 1000 : 0, {}};
  }};
  const Simulation run = without_actors(graph, demands, {.steps = 7});
  // A feed, a kernel and a fetch on two ranks.
  EXPECT_EQ(run.acts, 6);
  EXPECT_EQ(run.step, Seconds(1e-6));
  EXPECT_EQ(run.end, Seconds(7e-6));
}

TEST(StepRun, WhatTakesTimeBetweenRanksOrIsRandomNeedsTheActors) {
  const auto graph = random_programs::RandomProgram(1, {.ranks = 4, .works = 8}).graph();
  Demands demands = machine_demands(*graph, {});
  const SimulateOptions slow_messages{.message = Seconds(1e-6)};
  EXPECT_EQ(without_actors(graph, demands, slow_messages).last_step,
            of_actors(graph, demands, slow_messages).last_step);
  const SimulateOptions overlapping{.barrier_between_steps = false};
  EXPECT_EQ(without_actors(graph, demands, overlapping).last_step,
            of_actors(graph, demands, overlapping).last_step);
  demands.jitter = [](Rank, TaskId) { return 0.1; };
  EXPECT_EQ(without_actors(graph, demands, {}).last_step, of_actors(graph, demands, {}).last_step);
}

}  // namespace
}  // namespace tessera
