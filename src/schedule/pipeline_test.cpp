#include "schedule/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

/// A chain of stages: forward of stage s needs that of s - 1, backward of s needs that of s + 1 and its own forward; then an optimizer
/// each.
std::vector<PipelineStep> chain(int stages, int micro_batches) {
  std::vector<PipelineStep> work;
  std::vector<std::vector<int>> forward(static_cast<size_t>(stages)), backward(static_cast<size_t>(stages));
  const auto add = [&](PipelineStep piece) {
    work.push_back(std::move(piece));
    return static_cast<int>(work.size()) - 1;
  };
  for (int s = 0; s < stages; ++s)
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<int> needs;
      if (s > 0) needs.push_back(forward[static_cast<size_t>(s - 1)][static_cast<size_t>(i)]);
      forward[static_cast<size_t>(s)].push_back(add({s, Role::kForward, i, needs}));
    }
  for (int s = stages - 1; s >= 0; --s)
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<int> needs = {forward[static_cast<size_t>(s)][static_cast<size_t>(i)]};
      if (s + 1 < stages) needs.push_back(backward[static_cast<size_t>(s + 1)][static_cast<size_t>(i)]);
      backward[static_cast<size_t>(s)].push_back(add({s, Role::kBackward, i, needs}));
    }
  for (int s = 0; s < stages; ++s) add({s, Role::kOptimizer, -1, backward[static_cast<size_t>(s)]});
  return work;
}

PipelineOptions each_alone(PipelineKind kind, int stages, int micro_batches) {
  PipelineOptions options{.kind = kind, .micro_batches = micro_batches};
  for (int s = 0; s < stages; ++s) options.devices.push_back(s);
  return options;
}

std::vector<int> order_of(const std::vector<PipelineStep>& work, int stages, int micro_batches, PipelineKind kind) {
  return pipeline_order(work, each_alone(kind, stages, micro_batches)).order;
}

std::string of_stage(const std::vector<PipelineStep>& work, const std::vector<int>& order, int stage) {
  std::string text;
  for (int index : order) {
    const PipelineStep& piece = work[static_cast<size_t>(index)];
    if (piece.stage != stage) continue;
    text += piece.role == Role::kForward ? "F" : piece.role == Role::kBackward ? "B" : "O";
    if (piece.micro_batch >= 0) text += std::to_string(piece.micro_batch);
  }
  return text;
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
  EXPECT_EQ(of_stage(work, order_of(work, 2, 3, PipelineKind::kForwardThenBackward), 0), "F0F1F2B0B1B2O");
}

TEST(Pipeline, KeepsSoManyMicroBatchesAtEachStage) {
  for (const auto& [kind, micro_batches, expected] :
       std::vector<std::tuple<PipelineKind, int, std::vector<int>>>{{PipelineKind::kOneForwardOneBackward, 4, {4, 3, 2, 1}},
                                                                    {PipelineKind::kOneForwardOneBackward, 8, {4, 3, 2, 1}},
                                                                    {PipelineKind::kOneForwardOneBackward, 2, {2, 2, 2, 1}},
                                                                    {PipelineKind::kForwardThenBackward, 4, {4, 4, 4, 4}}}) {
    const auto work = chain(4, micro_batches);
    const auto order = order_of(work, 4, micro_batches, kind);
    for (int stage = 0; stage < 4; ++stage) {
      int alive = 0, most = 0;
      for (int index : order) {
        const PipelineStep& piece = work[static_cast<size_t>(index)];
        if (piece.stage == stage && piece.role == Role::kForward) most = std::max(most, ++alive);
        if (piece.stage == stage && piece.role == Role::kBackward) --alive;
      }
      EXPECT_EQ(most, expected[static_cast<size_t>(stage)]) << to_text(kind) << " m=" << micro_batches << " stage " << stage;
    }
  }
}

TEST(Pipeline, WhatAMicroBatchNeedsOnceComesFirst) {
  // 0, 1: parts of a count by micro-batch; 2: their sum, once; 3, 4: backward that needs it.
  const std::vector<PipelineStep> work = {{0, Role::kForward, 0, {}},
                                          {0, Role::kForward, 1, {}},
                                          {0, Role::kForward, -1, {0, 1}},
                                          {0, Role::kBackward, 0, {2}},
                                          {0, Role::kBackward, 1, {2}}};
  EXPECT_EQ(order_of(work, 1, 2, PipelineKind::kOneForwardOneBackward), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Pipeline, RefusesStagesThatWaitForEachOther) {
  const std::vector<PipelineStep> work = {{0, Role::kForward, 0, {1}}, {1, Role::kForward, 0, {0}}};
  EXPECT_THROW(order_of(work, 2, 1, PipelineKind::kOneForwardOneBackward), UserError);
}

}  // namespace
}  // namespace tessera
