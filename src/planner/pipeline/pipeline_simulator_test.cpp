#include "planner/pipeline/pipeline_simulator.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

// Every stage takes F = B = W = 1 and nothing once: 2 stages and 3 micro-batches under 1f1b take
// 3 (F + B + W) + (F + B + W); the bubble of zb-h1 is F + B - W (arXiv 2401.10241).
TEST(SimulatedSeconds, AreThoseOfTheScheduleAndWhatComesOnce) {
  PipelineChoice choice;
  choice.micro_batches = 3;
  for (int s = 0; s < 2; ++s)
    choice.stages.push_back({.first_unit = s,
                             .end_unit = s + 1,
                             .first = s,
                             .cost = {.forward = 1, .input_gradient = 1, .weight_gradient = 1},
                             .capacity = 1});
  EXPECT_NEAR(simulated_seconds(choice).value(), 12, 1e-9);
  choice.schedule = PipelineKind::kZeroBubbleH1;
  EXPECT_NEAR(simulated_seconds(choice).value(), 10, 1e-9);
  choice.schedule = PipelineKind::kOneForwardOneBackward;
  choice.stages[0].cost.once = 5;  // the first stage ends last
  EXPECT_NEAR(simulated_seconds(choice).value(), 17, 1e-9);
  choice.stages[0].cost.once = 0;
  choice.stages[1].cost.once = 5;  // it ends 2 before the first one
  EXPECT_NEAR(simulated_seconds(choice).value(), 15, 1e-9);
}

/// Stages of one unit on one rank each. Each takes F = B = W = 1, holds 10 and keeps 4 for each
/// micro-batch in flight.
PipelineChoice stages_of_one_unit(int stages, int64_t micro_batches, double capacity) {
  PipelineChoice choice;
  choice.micro_batches = micro_batches;
  for (int s = 0; s < stages; ++s)
    choice.stages.push_back(
        {.first_unit = s,
         .end_unit = s + 1,
         .first = s,
         .cost =
             {.forward = 1, .input_gradient = 1, .weight_gradient = 1, .variables = 10, .kept = 4},
         .capacity = capacity});
  return choice;
}

PipelineChoice pipeline_simulator_two_stages(double capacity) {
  return stages_of_one_unit(2, 3, capacity);
}

// Under 1f1b the first stage ends at 12 and the second one at 10. An update by a clipped norm
// begins when both gave their part of the norm, wherever the longest update is.
TEST(SimulatedSeconds, WhatWaitsForAllStagesBeginsWhenTheLastOneIsThere) {
  PipelineChoice choice = pipeline_simulator_two_stages(100);
  ASSERT_NEAR(simulated_seconds(choice).value(), 12, 1e-9);
  choice.stages[1].cost.once = 5;
  EXPECT_NEAR(simulated_seconds(choice).value(), 15, 1e-9);
  choice.stages[1].cost.joined = 4;  // 1 comes before the norm
  EXPECT_NEAR(simulated_seconds(choice).value(), 12 + 4, 1e-9);
  choice.stages[1].cost.once = 8;
  EXPECT_NEAR(simulated_seconds(choice).value(), 10 + 4 + 4, 1e-9);
}

// The stage that updates the variable ends at 12, the one that also reads it at 10.
TEST(SimulatedSeconds, AStageUpdatesAVariableWhenTheGradientOfTheOtherOneIsThere) {
  PipelineChoice choice = pipeline_simulator_two_stages(100);
  choice.stages[0].cost.once = 1;
  choice.shared = {{.from = 1, .to = 0, .seconds = 1}};
  EXPECT_NEAR(simulated_seconds(choice).value(), 12 + 1, 1e-9);
  choice.shared[0].seconds = 6;
  EXPECT_NEAR(simulated_seconds(choice).value(), 10 + 6 + 1, 1e-9);
}

/// Two branches of one unit each, and a unit that reads both, in stages of one unit.
LayerSequence sequence_of_two_branches() {
  return {.begins = {0, 1, 2}, .reads = {{}, {}, {0, 1}}};
}
PipelineChoice two_towers(int64_t micro_batches) {
  return stages_of_one_unit(3, micro_batches, 100);
}

// The branches run at the same time: of one micro-batch F and F, F + BW of the last stage, BW and
// BW. Each further one adds the 3 that every stage takes. A chain takes 3 (F + BW) of the first
// one.
TEST(SimulatePipeline, BranchesRunBesideEachOther) {
  const LayerSequence sequence = sequence_of_two_branches();
  for (const int64_t count : {1, 3}) {
    const auto simulated =
        simulate_pipeline(sequence, two_towers(count), PipelineKind::kOneForwardOneBackward)
            .value();
    EXPECT_FALSE(simulated.is_chain);
    EXPECT_EQ(simulated.stages[1].reads, (std::vector<int>{}));
    EXPECT_EQ(simulated.stages[2].reads, (std::vector<int>{0, 1}));
    const auto further = static_cast<double>(3 * (count - 1));
    EXPECT_NEAR(simulated.seconds, 6 + further, 1e-9);
    EXPECT_NEAR(simulated_seconds(two_towers(count)).value(), 9 + further, 1e-9) << "as a chain";
  }
}

// Both branches are one stage before the end, so that two micro-batches are in flight on each.
TEST(SimulatePipeline, BranchesKeepTheMicroBatchesOfTheirDistanceToTheEnd) {
  const auto simulated = simulate_pipeline(sequence_of_two_branches(), two_towers(3),
                                           PipelineKind::kOneForwardOneBackward)
                             .value();
  EXPECT_EQ(simulated_memory(simulated), (std::vector<double>{18, 18, 14}));
}

TEST(SimulatePipeline, SchedulesThatSplitTheBackwardTakeChains) {
  EXPECT_FALSE(
      simulate_pipeline(sequence_of_two_branches(), two_towers(3), PipelineKind::kZeroBubbleH1));
  const LayerSequence chain{.begins = {0, 1, 2}, .reads = {{}, {0}, {1}}};
  const auto simulated =
      simulate_pipeline(chain, two_towers(3), PipelineKind::kZeroBubbleH1).value();
  EXPECT_TRUE(simulated.is_chain);
}

// Two stages of the first branch, one of the second one, and one of the end that reads both.
TEST(WithReads, AStageReadsEachStageThatMakesWhatItsUnitsRead) {
  const LayerSequence sequence{.begins = {0, 1, 2, 3, 4, 5},
                               .reads = {{}, {0}, {1}, {}, {2, 3}, {2, 4}}};
  PipelineChoice choice;
  const int ends[] = {1, 3, 4, 6};
  for (int s = 0, unit = 0; s < 4; unit = ends[s++])
    choice.stages.push_back({.first_unit = unit, .end_unit = ends[s], .first = s});
  const PipelineChoice made = with_reads(sequence, choice);
  EXPECT_FALSE(made.is_chain);
  EXPECT_EQ(made.stages[0].reads, (std::vector<int>{}));
  EXPECT_EQ(made.stages[1].reads, (std::vector<int>{0}));
  EXPECT_EQ(made.stages[2].reads, (std::vector<int>{}));
  EXPECT_EQ(made.stages[3].reads, (std::vector<int>{1, 2}));
}

// The third stage has labels, which have no gradient: it stays in its place in the chain.
TEST(WithReads, AStageOfLabelsFollowsTheOneBeforeIt) {
  const LayerSequence sequence{.begins = {0, 1, 2, 3, 4}, .reads = {{}, {}, {0, 1}, {}, {2}}};
  PipelineChoice choice;
  for (int s = 0; s < 5; ++s)
    choice.stages.push_back({.first_unit = s, .end_unit = s + 1, .first = s});
  const PipelineChoice made = with_reads(sequence, choice);
  EXPECT_FALSE(made.is_chain);
  EXPECT_EQ(made.stages[3].reads, (std::vector<int>{2}));
  EXPECT_EQ(made.stages[4].reads, (std::vector<int>{2}));
}

// 1f1b keeps two micro-batches on the first of two stages, f-then-b all three.
TEST(SimulatedSeconds, ThereAreNoneWhereTheMicroBatchesInFlightDoNotFit) {
  PipelineChoice choice = pipeline_simulator_two_stages(18);
  EXPECT_TRUE(simulated_seconds(choice));
  choice.schedule = PipelineKind::kForwardThenBackward;
  EXPECT_FALSE(simulated_seconds(choice));
  choice.stages[0].capacity = choice.stages[1].capacity = 22;
  EXPECT_TRUE(simulated_seconds(choice));
}

// 10 and 4 for each micro-batch in flight: under 1f1b two on the first of two stages and one on
// the last one, under f-then-b all three.
TEST(SimulatedMemory, IsThatOfTheMicroBatchesInFlightAndWhatIsThereAllTheTime) {
  PipelineChoice choice = pipeline_simulator_two_stages(100);
  EXPECT_EQ(simulated_memory(choice), (std::vector<double>{18, 14}));
  choice.schedule = PipelineKind::kForwardThenBackward;
  EXPECT_EQ(simulated_memory(choice), (std::vector<double>{22, 22}));
  choice.stages[0].capacity = 21;
  EXPECT_TRUE(simulated_memory(choice).empty());
}

/// Four stages on two devices, in turn or in a V. Each takes F = B = W = 1, holds 10 and keeps 4
/// for each micro-batch in flight.
PipelineChoice four_stages_on_two_devices(bool in_v) {
  PipelineChoice choice;
  choice.micro_batches = 4;
  for (int s = 0; s < 4; ++s)
    choice.stages.push_back(
        {.first_unit = s,
         .end_unit = s + 1,
         .first = in_v && s > 1 ? 3 - s : s % 2,
         .cost =
             {.forward = 1, .input_gradient = 1, .weight_gradient = 1, .variables = 10, .kept = 4},
         .capacity = 100});
  return choice;
}

TEST(PipelineChoice, StagesThatBeginAtOneRankAreOnOneDevice) {
  const PipelineChoice in_turn = four_stages_on_two_devices(false),
                       in_v = four_stages_on_two_devices(true);
  const auto devices_of = [](const PipelineChoice& choice) {
    std::vector<size_t> devices;
    for (size_t s = 0; s < choice.stages.size(); ++s) devices.push_back(choice.device_of(s));
    return devices;
  };
  EXPECT_EQ(devices_of(in_turn), (std::vector<size_t>{0, 1, 0, 1}));
  EXPECT_EQ(devices_of(in_v), (std::vector<size_t>{0, 1, 1, 0}));
  EXPECT_FALSE(in_turn.is_v());
  EXPECT_TRUE(in_v.is_v());
  PipelineChoice one_each = in_turn;
  one_each.stages.resize(2);
  EXPECT_FALSE(one_each.has_two_stages());
  EXPECT_FALSE(one_each.is_v());
}

// The bubble is (p - 1) (F + B + W) / v (Narayanan et al., arXiv 2104.04473): 6 / 2 beside 4 x 6.
// What is done once follows the last pass of the device that has the stage.
TEST(SimulatedSeconds, OfTwoStagesOnADeviceAreThoseOfTheInterleavedSchedule) {
  PipelineChoice choice = four_stages_on_two_devices(false);
  choice.schedule = PipelineKind::kInterleaved;
  EXPECT_NEAR(simulated_seconds(choice).value(), 27, 1e-9);
  for (StageChoice& stage : choice.stages) stage.cost.once = 5;
  EXPECT_NEAR(simulated_seconds(choice).value(), 37, 1e-9) << "of both stages of the first device";
  choice.schedule = PipelineKind::kZeroBubbleV;
  EXPECT_FALSE(simulated_seconds(choice)) << "it is no V";
}

// The micro-batches in flight are 2 (p - rank - 1) + (v - 1) p + 1 pieces of a stage: 5 and 3.
TEST(SimulatedMemory, StagesOfADeviceHaveItsMemoryTogether) {
  PipelineChoice choice = four_stages_on_two_devices(false);
  choice.schedule = PipelineKind::kInterleaved;
  EXPECT_EQ(simulated_memory(choice), (std::vector<double>{40, 32, 40, 32}));
  for (StageChoice& stage : choice.stages) stage.capacity = 39;
  EXPECT_TRUE(simulated_memory(choice).empty());
}

// The devices hold 40 and 32: they lack 2 and 1.
TEST(PipelineSimulator, ItsStepIsThatOfTheScheduleWithWhatIsMissing) {
  PipelineChoice choice = four_stages_on_two_devices(false);
  choice.schedule = PipelineKind::kInterleaved;
  const PipelineSimulator clock(choice);
  EXPECT_EQ(clock.run(choice).missing, 0);
  EXPECT_NEAR(clock.run(choice).seconds, 27, 1e-9);
  for (StageChoice& stage : choice.stages) stage.capacity = stage.first == 0 ? 38 : 31;
  EXPECT_EQ(clock.run(choice).missing, 2 + 1);
  EXPECT_NEAR(clock.run(choice).seconds, 27, 1e-9);
}

}  // namespace
}  // namespace tessera
