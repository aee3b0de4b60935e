#include "compiler/schedule/auto_order.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "compiler/schedule/clock.h"
#include "compiler/schedule/internal/list_schedule.h"
#include "compiler/schedule/named_orders.h"

namespace tessera {
namespace {

/// Random numbers of one seed, the same with every standard library.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }
  /// A time from 0.25 to 2 in steps of 1/16, so that sums are exact.
  double time() { return (4 + below(29)) / 16.0; }

 private:
  std::mt19937 engine_;
};

/// A chain in one of the placements, or stages that need random earlier stages, with random times
/// and memory.
PipelineShape random_shape(unsigned seed) {
  Draw draw(seed);
  const int p = 1 + draw.below(5), m = 1 + draw.below(3 * p + 3), kind = draw.below(4);
  const auto placement = kind == 2 ? StagePlacement::kV : StagePlacement::kRoundRobin;
  PipelineShape shape = chain_of(p, kind == 0 ? 1 : 2, placement, m);
  if (kind == 3)
    for (int k = 1; k < static_cast<int>(shape.stages.size()); ++k) {
      // A tree: instead of the stage before it, one of those before it.
      const int from = draw.below(k);
      auto& stage = shape.stages[k];
      stage.needs[0] = {{from, PassKind::kForward}};
      auto& before = shape.stages[k - 1].needs[1];
      std::erase(before, PassNeed{k, PassKind::kInputGradient});
      shape.stages[from].needs[1].push_back({k, PassKind::kInputGradient});
    }
  for (PipelineStage& stage : shape.stages) {
    stage.costs = {draw.time(), draw.time(), draw.time(), draw.time(), 0};
    stage.costs.freed_early = stage.costs.kept * draw.below(3) / 4;
  }
  shape.transfer = draw.below(3) * 0.25;
  if (draw.below(4) > 0) {
    std::vector<double> one(static_cast<size_t>(p), 0);
    for (const PipelineStage& stage : shape.stages) one[stage.device] += stage.costs.kept;
    for (double kept : one) shape.memory_limits.push_back(kept * (1 + draw.below(2 * p + 1) / 2.0));
  }
  return shape;
}

TEST(AutoOrder, ForRandomStagesIsCompleteFitsMemoryAndIsNotWorseThanNamedSchedules) {
  int compared = 0;  // with named schedules that fit the stages and the memory
  for (unsigned seed = 0; seed < 400; ++seed)
    for (PipelineGoal goal : {PipelineGoal::kStep, PipelineGoal::kSpan}) {
      const PipelineShape shape = random_shape(seed);
      const AutoOrders made = auto_orders(shape, {.goal = goal, .work = 50'000});
      const std::string where = "random_shape(" + std::to_string(seed) + "), goal " +
                                std::to_string(static_cast<int>(goal));
      ASSERT_EQ(first_fault(shape, made.orders), "") << where;
      const auto timeline = simulate_passes(shape, made.orders);
      ASSERT_TRUE(timeline) << where;
      const auto worth = [&](const PassTimeline& of) {
        return goal == PipelineGoal::kStep ? of.duration() : of.longest_span();
      };
      EXPECT_NEAR(worth(*timeline), made.time, 1e-9) << where;
      EXPECT_LE(made.bound.time, made.time + 1e-9) << where << ": " << made.bound.why;
      for (const PipelineFacts& facts : pipeline_schedules()) {
        if (facts.kind == PipelineKind::kAuto || !invalid_reason(facts.kind, shape).empty())
          continue;
        const DeviceOrders named = named_orders(facts.kind, shape);
        const std::string fault = first_fault(shape, named);
        if (fault.find(" keeps ") != std::string::npos) continue;  // it does not fit the memory
        ASSERT_EQ(fault, "") << facts.name << " " << where;
        const auto other = simulate_passes(shape, named);
        ASSERT_TRUE(other) << facts.name << " " << where;
        EXPECT_LE(made.time, worth(*other) + 1e-9) << facts.name << " " << where;
        ++compared;
      }
    }
  EXPECT_GT(compared, 800);
}

TEST(AutoOrder, EveryListRuleFinishesWithMemoryForOneMicroBatch) {
  using Prefer = ListRule::Prefer;
  using Fill = ListRule::Fill;
  for (unsigned seed = 0; seed < 100; ++seed) {
    PipelineShape shape = random_shape(seed);
    shape.memory_limits.assign(shape.devices, 0);
    for (const PipelineStage& stage : shape.stages)
      shape.memory_limits[stage.device] += stage.costs.kept;
    for (Prefer prefer : {Prefer::kBackward, Prefer::kForward, Prefer::kInTurn})
      for (Fill fill : {Fill::kFits, Fill::kBalanced, Fill::kAlways})
        for (bool awaits : {false, true}) {
          const auto orders = list_schedule(shape, {prefer, fill, awaits, 0});
          ASSERT_TRUE(orders) << "random_shape(" << seed << ")";
          EXPECT_EQ(first_fault(shape, *orders), "") << "random_shape(" << seed << ")";
          EXPECT_TRUE(simulate_passes(shape, *orders)) << "random_shape(" << seed << ")";
        }
  }
}

TEST(AutoOrder, ReachesTheBoundWhereOneDeviceIsAlwaysBusy) {
  // The last of three stages has as much work as the others together: it begins when the first two
  // have ended and never waits again.
  PipelineShape shape = chain_of(3, 1, StagePlacement::kRoundRobin, 8);
  shape.stages[2].costs = {2, 2, 2, 1, 0};
  const AutoOrders made = auto_orders(shape);
  // There are 2 forwards before it and 8 micro-batches of 6. Its last W may come after the last B
  // that the others wait for.
  EXPECT_EQ(made.bound.time, 2 + 8 * 6);
  EXPECT_EQ(made.time, made.bound.time);
  EXPECT_EQ(made.bound.why, "device 2 is busy for 48, and 2 come before and after");
}

TEST(AutoOrder, MemoryBoundsTheStepByACycleOfTheGraph) {
  // One micro-batch at a time: from F of stage 0 to its W there are 2 F, 2 B and a W.
  PipelineShape shape = chain_of(2, 1, StagePlacement::kRoundRobin, 4);
  shape.memory_limits = {1, 1};
  const PipelineBound bound = bound_of_step(shape);
  EXPECT_EQ(bound.time, 4 * 5);
  EXPECT_EQ(bound.why, "stage 0 keeps at most 1 micro-batches, each for 5");
  EXPECT_EQ(auto_orders(shape).time, 4 * 5);
}

TEST(AutoOrder, AMicroBatchThatNeverFitsIsRefusedWithTheMissingMemory) {
  PipelineShape shape = chain_of(2, 2, StagePlacement::kV, 4, {.kept = 3});
  shape.memory_limits = {4, 2.5};
  try {
    auto_orders(shape);
    FAIL() << "it was ordered";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no order of the pipeline fits the memory of device 1\n"
                 "  why: one micro-batch keeps 3 there until its backward, and there is 2.5\n"
                 "  fix: give it 0.5 more, or make micro-batches smaller");
    EXPECT_EQ(error.exit_code(), ExitCode::kNoPlan);
  }
}

TEST(AutoOrder, TheSameShapeGivesTheSameOrder) {
  const PipelineShape shape = random_shape(7);
  EXPECT_EQ(auto_orders(shape).orders, auto_orders(shape).orders);
}

}  // namespace
}  // namespace tessera
