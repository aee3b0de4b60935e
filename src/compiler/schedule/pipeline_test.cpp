#include "compiler/schedule/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

/// A chain of stages: forward of stage s needs that of s - 1, backward of s needs that of s + 1 and
/// its own forward; each stage has an optimizer.
std::vector<PipelineStep> chain(int stages, int micro_batches) {
  std::vector<PipelineStep> work;
  std::vector<std::vector<int>> forward(static_cast<size_t>(stages)),
      backward(static_cast<size_t>(stages));
  const auto add = [&](PipelineStep piece) {
    work.push_back(std::move(piece));
    return static_cast<int>(work.size()) - 1;
  };
  for (int s = 0; s < stages; ++s)
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<int> needs;
      if (s > 0) needs.push_back(forward[s - 1][i]);
      forward[s].push_back(add({s, Role::kForward, i, needs}));
    }
  for (int s = stages - 1; s >= 0; --s)
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<int> needs = {forward[s][i]};
      if (s + 1 < stages) needs.push_back(backward[s + 1][i]);
      backward[s].push_back(add({s, Role::kBackward, i, needs}));
    }
  for (int s = 0; s < stages; ++s) add({s, Role::kOptimizer, -1, backward[s]});
  return work;
}

PipelineOptions each_alone(PipelineKind kind, int stages, int micro_batches) {
  PipelineOptions options{.kind = kind, .micro_batches = micro_batches};
  for (int s = 0; s < stages; ++s) options.devices.push_back(s);
  return options;
}

std::vector<int> order_of(const std::vector<PipelineStep>& work, int stages, int micro_batches,
                          PipelineKind kind) {
  return pipeline_order(work, each_alone(kind, stages, micro_batches)).order;
}

std::string of_stage(const std::vector<PipelineStep>& work, const std::vector<int>& order,
                     int stage) {
  std::string text;
  for (int index : order) {
    const PipelineStep& piece = work[index];
    if (piece.stage != stage) continue;
    text += piece.role == Role::kForward ? "F" : piece.role == Role::kBackward ? "B" : "O";
    if (piece.micro_batch >= 0) text += std::to_string(piece.micro_batch);
  }
  return text;
}

TEST(Pipeline, ACycleOfStagesIsRefusedWithWhatTheyNeedOfEachOther) {
  // Stage 1 takes from stage 0 what that makes of what stage 1 made before.
  const std::vector<PipelineStep> work{
      {1, Role::kForward, 0, {}}, {0, Role::kForward, 0, {0}}, {1, Role::kForward, 0, {1}}};
  PipelineOptions options = each_alone(PipelineKind::kOneForwardOneBackward, 2, 1);
  const auto why = [&] {
    try {
      pipeline_order(work, options);
      return std::string("no error");
    } catch (const UserError& error) {
      const std::string text = error.what();
      return text.substr(0, text.find("; a stage"));
    }
  };
  const std::string what = "the stages of the pipeline wait for each other in a cycle\n  why: ";
  EXPECT_EQ(why(), what +
                       "the forward of stage 0 needs the forward of stage 1, which needs the "
                       "forward of stage 0");
  options.stage_names = {"first", "second"};
  options.name_of_result = [](int piece) { return "x" + std::to_string(piece); };
  EXPECT_EQ(why(), what +
                       "the forward of stage 'first' needs 'x0' of the forward of stage 'second', "
                       "which needs 'x1' of the forward of stage 'first'");
}

TEST(Pipeline, OneForwardOneBackwardWarmsUpByTheDistanceToTheEnd) {
  const auto work = chain(4, 5);
  const auto order = order_of(work, 4, 5, PipelineKind::kOneForwardOneBackward);
  EXPECT_EQ(of_stage(work, order, 0), "F0F1F2F3B0F4B1B2B3B4O");
  EXPECT_EQ(of_stage(work, order, 2), "F0F1B0F2B1F3B2F4B3B4O");
  EXPECT_EQ(of_stage(work, order, 3), "F0B0F1B1F2B2F3B3F4B4O");
}

TEST(Pipeline, ForwardThenBackwardDoesAllForwardsFirst) {
  const auto work = chain(2, 3);
  EXPECT_EQ(of_stage(work, order_of(work, 2, 3, PipelineKind::kForwardThenBackward), 0),
            "F0F1F2B0B1B2O");
}

TEST(Pipeline, EachStageHasItsNumberOfMicroBatchesInFlight) {
  for (const auto& [kind, micro_batches, expected] :
       std::vector<std::tuple<PipelineKind, int, std::vector<int>>>{
           {PipelineKind::kOneForwardOneBackward, 4, {4, 3, 2, 1}},
           {PipelineKind::kOneForwardOneBackward, 8, {4, 3, 2, 1}},
           {PipelineKind::kOneForwardOneBackward, 2, {2, 2, 2, 1}},
           {PipelineKind::kForwardThenBackward, 4, {4, 4, 4, 4}}}) {
    const auto work = chain(4, micro_batches);
    const auto order = order_of(work, 4, micro_batches, kind);
    for (int stage = 0; stage < 4; ++stage) {
      int alive = 0, largest = 0;
      for (int index : order) {
        const PipelineStep& piece = work[index];
        if (piece.stage == stage && piece.role == Role::kForward)
          largest = std::max(largest, ++alive);
        if (piece.stage == stage && piece.role == Role::kBackward) --alive;
      }
      EXPECT_EQ(largest, expected[stage])
          << to_text(kind) << " m=" << micro_batches << " stage " << stage;
    }
  }
}

TEST(Pipeline, ThePrologueComesFirst) {
  // 0, 1: parts of a count by micro-batch; 2: their sum, once; 3, 4: backward that needs it.
  const std::vector<PipelineStep> work = {{0, Role::kForward, 0, {}},
                                          {0, Role::kForward, 1, {}},
                                          {0, Role::kForward, -1, {0, 1}},
                                          {0, Role::kBackward, 0, {2}},
                                          {0, Role::kBackward, 1, {2}}};
  EXPECT_EQ(order_of(work, 1, 2, PipelineKind::kOneForwardOneBackward),
            (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Pipeline, ASumOverAllMicroBatchesIsPartOfThePrologue) {
  // 0, 1: partial values by micro-batch, 1 adds itself to 0; 2, 3: forward that needs the sum.
  const std::vector<PipelineStep> work = {{0, Role::kForward, 0, {}},
                                          {0, Role::kForward, 1, {0}},
                                          {0, Role::kForward, 0, {1}},
                                          {0, Role::kForward, 1, {1}}};
  EXPECT_EQ(order_of(work, 1, 2, PipelineKind::kOneForwardOneBackward),
            (std::vector<int>{0, 1, 2, 3}));
}

/// The backward of a stage as it is lowered: for each micro-batch the gradient from the next stage
/// (from 1 on stage 0), then a gradient of weights that branches off, then the gradient for the
/// previous stage.
std::vector<PipelineStep> two_stages_with_weights(int micro_batches) {
  std::vector<PipelineStep> work;
  const auto add = [&](PipelineStep piece) {
    work.push_back(std::move(piece));
    return static_cast<int>(work.size()) - 1;
  };
  for (int i = 0; i < micro_batches; ++i) {
    const int first = add({0, Role::kForward, i, {}, 1});
    const int last = add({1, Role::kForward, i, {first}, 1});
    const int loss = add({1, Role::kBackward, i, {last}, 1});  // leads to stage 0
    add({1, Role::kBackward, i, {loss}, 1});                   // weights
    const int inner = add({0,
                           Role::kBackward,
                           i,
                           {loss},
                           1});  // of an activation inside of stage 0: the chain goes on
    add({0, Role::kBackward, i, {inner}, 1});  // weights, the last link
  }
  return work;
}

TEST(Pipeline, BackwardIsSplitByItsConsumers) {
  const PipelineOrder made =
      pipeline_order(two_stages_with_weights(2), each_alone(PipelineKind::kZeroBubbleH1, 2, 2));
  std::string text;
  for (int piece = 0; piece < 6; ++piece) text += std::string(to_text(*made.passes[piece])) + " ";
  EXPECT_EQ(text, "F F B W B W ");
  // Stage 1 finishes the gradient of micro-batch 1 before the weights of 0, so stage 0 does not
  // wait for them.
  EXPECT_EQ(to_text(made.orders[1]), "F1.0 B1.0 F1.1 B1.1 W1.0 W1.1");
}

TEST(Pipeline, ABackwardThatIsNotSplitIsOnePass) {
  const PipelineOrder made = pipeline_order(two_stages_with_weights(2),
                                            each_alone(PipelineKind::kOneForwardOneBackward, 2, 2));
  EXPECT_EQ(made.passes[3], PassKind::kBackward);
  EXPECT_EQ(to_text(made.orders[1]), "F1.0 BW1.0 F1.1 BW1.1");
}

TEST(Pipeline, AStageUpdatesAsSoonAsItsOwnGradientsAreComplete) {
  // Its optimizer follows its own passes directly and needs those of no other stage; the last stage
  // finishes first.
  const auto work = chain(3, 4);
  const auto order = order_of(work, 3, 4, PipelineKind::kOneForwardOneBackward);
  for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(of_stage(work, order, stage).back(), 'O');
  EXPECT_EQ(of_stage(work, order, 2), "F0B0F1B1F2B2F3B3O");
}

TEST(Pipeline, StagesOfOneDeviceTakeTurns) {
  // Two stages on one device: micro-batch 0 passes through both before 1 begins its backward.
  // Nothing overlaps, and no piece is lost.
  const auto work = chain(2, 2);
  PipelineOptions options = each_alone(PipelineKind::kOneForwardOneBackward, 2, 2);
  options.devices = {0, 0};
  const PipelineOrder made = pipeline_order(work, options);
  ASSERT_EQ(made.orders.size(), 1u);
  EXPECT_EQ(first_fault(made.shape, made.orders), "");
}

TEST(Pipeline, ATransferIsAPartOfAMicroBatchOnTheBusiestDevice) {
  // A micro-batch takes 1 + 1 on the first device, and 3 + 1 on the second one.
  auto work = chain(2, 2);
  for (PipelineStep& piece : work)
    piece.work = piece.role == Role::kForward && piece.stage == 1 ? 3 : 1;
  PipelineOptions options = each_alone(PipelineKind::kOneForwardOneBackward, 2, 2);
  options.transfer = 0.25;
  const PipelineShape shape = pipeline_order(work, options).shape;
  const StageCosts& busiest = shape.stages[1].costs;
  EXPECT_DOUBLE_EQ(
      shape.transfer / (busiest.forward + busiest.input_gradient + busiest.weight_gradient), 0.25);
}

// The bubble of p stages and m micro-batches of equal passes is (p - 1) / (m + p - 1).
TEST(Pipeline, TheBubbleOfEqualStagesIsThatOfTheFormula) {
  for (const auto& [stages, micro_batches] : {std::pair(2, 4), std::pair(4, 8), std::pair(1, 3)}) {
    PipelineOptions options =
        each_alone(PipelineKind::kOneForwardOneBackward, stages, micro_batches);
    options.transfer = 0;
    auto work = chain(stages, micro_batches);
    for (PipelineStep& piece : work) piece.work = piece.role == Role::kOptimizer ? 0 : 1;
    const PipelineWorth worth = worth_of(pipeline_order(work, options));
    const double bubble = (stages - 1.0) / (micro_batches + stages - 1.0);
    ASSERT_EQ(worth.devices.size(), static_cast<size_t>(stages));
    for (size_t device = 0; device < worth.devices.size(); ++device)
      EXPECT_NEAR(worth.bubble(device), bubble, 1e-9);
    EXPECT_NEAR(worth.mean_bubble(), bubble, 1e-9);
    EXPECT_NEAR(worth.step, micro_batches + stages - 1, 1e-9);
  }
}

TEST(Pipeline, RefusesStagesThatWaitForEachOther) {
  const std::vector<PipelineStep> work = {{0, Role::kForward, 0, {1}}, {1, Role::kForward, 0, {0}}};
  EXPECT_THROW(order_of(work, 2, 1, PipelineKind::kOneForwardOneBackward), UserError);
}

}  // namespace
}  // namespace tessera
