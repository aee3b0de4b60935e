#include "compiler/schedule/clock.h"

#include <gtest/gtest.h>

#include "compiler/schedule/named_orders.h"

namespace tessera {
namespace {

constexpr PassKind F = PassKind::kForward, B = PassKind::kInputGradient,
                   W = PassKind::kWeightGradient, BW = PassKind::kBackward;

TEST(PassClock, APassWaitsForItsDeviceAndForTransfers) {
  // Two stages; F 2, B 3, W 1, a transfer 0.5.
  PipelineShape shape = chain_of(2, 1, StagePlacement::kRoundRobin, 1, {2, 3, 1});
  shape.transfer = 0.5;
  const auto timeline = simulate_passes(
      shape, {{{F, 0, 0}, {B, 0, 0}, {W, 0, 0}}, {{F, 1, 0}, {B, 1, 0}, {W, 1, 0}}});
  ASSERT_TRUE(timeline);
  const auto starts = [&](size_t device) {
    std::vector<double> list;
    for (const TimedPass& pass : timeline->passes[device]) list.push_back(pass.start);
    return list;
  };
  EXPECT_EQ(starts(1), (std::vector<double>{2.5, 4.5, 7.5}));
  EXPECT_EQ(starts(0), (std::vector<double>{0, 8, 11}));
  EXPECT_EQ(timeline->duration(), 12);
  EXPECT_EQ(timeline->devices[0].bubble(), 6);  // from 2 to 8
  EXPECT_EQ(timeline->devices[1].bubble(), 0);
  EXPECT_EQ(timeline->longest_span(), 12);
}

// Between the first two stages it takes 0.5, between the others 3: of the result and the gradient.
TEST(PassClock, ATransferTakesTheTimeOfTheLaterOneOfItsStages) {
  PipelineShape shape = chain_of(3, 1, StagePlacement::kRoundRobin, 1, {2, 2, 2});
  shape.transfer = 0.5;
  shape.stages[2].transfer = 3;
  const auto timeline = simulate_passes(
      shape, {{{F, 0, 0}, {BW, 0, 0}}, {{F, 1, 0}, {BW, 1, 0}}, {{F, 2, 0}, {BW, 2, 0}}});
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->passes[1][0].start, 2.5);
  EXPECT_EQ(timeline->passes[2][0].start, 4.5 + 3);
  EXPECT_EQ(timeline->passes[1][1].start, 9.5 + 4 + 3);
  EXPECT_EQ(timeline->passes[0][1].start, 16.5 + 4 + 0.5);
}

TEST(PassClock, AnUnsplitBackwardSendsItsGradientAtItsEnd) {
  const PipelineShape shape = chain_of(2, 1, StagePlacement::kRoundRobin, 1);
  const auto split = simulate_passes(
      shape, {{{F, 0, 0}, {B, 0, 0}, {W, 0, 0}}, {{F, 1, 0}, {B, 1, 0}, {W, 1, 0}}});
  const auto whole = simulate_passes(shape, {{{F, 0, 0}, {BW, 0, 0}}, {{F, 1, 0}, {BW, 1, 0}}});
  EXPECT_EQ(split->duration(), 5);
  EXPECT_EQ(whole->duration(), 6);
}

TEST(PassClock, StagesOfOneDeviceShareItsTimeAndNeedNoTransfer) {
  PipelineShape shape = chain_of(1, 2, StagePlacement::kV, 1, {2, 2, 2});
  shape.transfer = 100;
  EXPECT_EQ(simulate_passes(shape, {{{F, 0, 0}, {F, 1, 0}, {BW, 1, 0}, {BW, 0, 0}}})->duration(),
            6);
}

TEST(PassClock, ForwardAllocatesMemoryAndBackwardFreesIt) {
  PipelineShape shape =
      chain_of(1, 1, StagePlacement::kRoundRobin, 2, {.kept = 5, .freed_early = 2});
  // 5, 3 (B gave back 2), 8, 5 (W gave back 3), ...
  EXPECT_EQ(
      simulate_passes(shape, {{{F, 0, 0}, {B, 0, 0}, {F, 0, 1}, {W, 0, 0}, {B, 0, 1}, {W, 0, 1}}})
          ->max_memory(),
      8);
  EXPECT_EQ(simulate_passes(shape, {{{F, 0, 0}, {BW, 0, 0}, {F, 0, 1}, {BW, 0, 1}}})->max_memory(),
            5);
}

TEST(PassClock, PassesThatWaitForEachOtherAreFound) {
  const PipelineShape shape = chain_of(2, 1, StagePlacement::kRoundRobin, 2);
  // Device 0 has the backward of micro-batch 0 before the forward of 1, and device 1 has them in
  // the opposite order.
  EXPECT_FALSE(simulate_passes(shape, {{{F, 0, 0}, {BW, 0, 0}, {F, 0, 1}, {BW, 0, 1}},
                                       {{F, 1, 0}, {F, 1, 1}, {BW, 1, 0}, {BW, 1, 1}}}));
}

TEST(Passes, AnIncompleteOrderOrOneAboveTheMemoryLimitIsAFault) {
  PipelineShape shape = chain_of(1, 1, StagePlacement::kRoundRobin, 2);
  EXPECT_EQ(first_fault(shape, {{{F, 0, 0}, {F, 0, 1}, {BW, 0, 0}, {B, 0, 1}, {W, 0, 1}}}), "");
  EXPECT_EQ(first_fault(shape, {{{F, 0, 0}, {BW, 0, 0}, {F, 0, 1}, {B, 0, 1}}}),
            "stage 0 has 1 of 2 W passes");
  EXPECT_EQ(first_fault(shape, {{{F, 0, 1}}}), "F0.1 on device 0 is not the next of its kind");
  shape.memory_limits = {1.5};
  EXPECT_EQ(first_fault(shape, {{{F, 0, 0}, {F, 0, 1}, {BW, 0, 0}, {BW, 0, 1}}}),
            "F0.1 on device 0 keeps 2 of 1.5");
}

}  // namespace
}  // namespace tessera
