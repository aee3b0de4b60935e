// Single steps for users with a loop of their own: batches, steps, and preparations before the
// first step.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "training/engine/checkpointing.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

std::vector<int32_t> list(const Tensor& tensor) {
  const auto values = tensor.values<int32_t>();
  return {values.begin(), values.end()};
}

TEST(OwnLoop, BatchesOfTheDataloaderAreThoseOfTheSteps) {
  Engine steps(tiny_mlp(), serial_plan(), small_text()),
      loop(tiny_mlp(), serial_plan(), small_text());
  std::vector<double> expected, found;
  for (int i = 0; i < 5; ++i) expected.push_back(steps.step().loss);
  for (const Batch& batch : loop.dataloader(5)) found.push_back(loop.step(batch).loss);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(loop.step_count(), 5);
}

TEST(OwnLoop, TheDataloaderTakesWhatItsLoopTakesAndNoMore) {
  Engine engine(tiny_mlp(), serial_plan(), small_text()),
      whole(tiny_mlp(), serial_plan(), small_text());
  std::vector<std::vector<int32_t>> expected, found;
  for (const Batch& batch : whole.dataloader(4)) expected.push_back(list(batch.at("tokens")));
  for (const Batch& batch : engine.dataloader(10)) {
    found.push_back(list(batch.at("tokens")));
    if (found.size() == 2) break;
  }
  found.push_back(list(engine.next_batch().at("tokens")));
  for (const Batch& batch : engine.dataloader(1)) found.push_back(list(batch.at("tokens")));
  EXPECT_EQ(found, expected);
  for (const Batch& batch : engine.dataloader(0))
    FAIL() << "no batch was asked for, here is one of " << batch.at("tokens").size();
}

TEST(OwnLoop, AnEpochHasAsManyStepsAsItsTextHasBatches) {
  RunConfig config = tiny_mlp();
  config.train.batch = 100;
  // 5400 tokens are for training: 674 samples of 8 and the token after each.
  const auto data = small_text();
  Engine engine(config, serial_plan(), data);
  EXPECT_EQ(data->train->samples(), 674);
  EXPECT_EQ(engine.batches().steps_per_epoch(), 6);
}

TEST(OwnLoop, PrepareMakesEveryProgramOnceAndChangesNothing) {
  Engine prepared(tiny_gpt(), plan_of("gpt", "dp2"), small_text()),
      plain(tiny_gpt(), plan_of("gpt", "dp2"), small_text());
  const Bytes before = prepared.runtime().peak_bytes();
  prepared.prepare();
  const Bytes after = prepared.runtime().peak_bytes();
  EXPECT_EQ(after, before);  // evaluation and prediction run in the arena of the step
  prepared.prepare();
  EXPECT_EQ(prepared.runtime().peak_bytes(), after);
  EXPECT_EQ(prepared.step().loss, plain.step().loss);
  EXPECT_EQ(prepared.evaluate(1).loss, plain.evaluate(1).loss);
  EXPECT_EQ(prepared.text().predict({1, 2, 3}), plain.text().predict({1, 2, 3}));
  EXPECT_EQ(prepared.runtime().peak_bytes(), after);
}

TEST(OwnLoop, ABatchOfOnesOwnIsAStepLikeAnyOther) {
  const auto data = small_text();
  Engine engine(tiny_mlp(), serial_plan(), data);
  const Sampler sampler({.samples = data->train->samples(),
                         .batch = 8,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kDrop,
                         .seed = 0});
  const Batch own = data->train->batch(sampler, 3, {0, 8});
  const double first = engine.step(own).loss;
  for (int i = 0; i < 20; ++i) engine.step(own);
  EXPECT_LT(engine.step(own).loss, first);
  EXPECT_EQ(engine.step_count(), 22);
}

TEST(OwnLoop, StepsInTwoHalvesFollowEachOtherAndGiveWhatStepsGive) {
  Engine whole(tiny_mlp(), plan_of("mlp", "dp2"), small_text()),
      halves(tiny_mlp(), plan_of("mlp", "dp2"), small_text());
  std::vector<double> expected, found;
  for (int i = 0; i < 5; ++i) expected.push_back(whole.step().loss);
  halves.begin_step();
  for (int i = 0; i < 5; ++i) {
    if (i < 4) halves.begin_step();
    EXPECT_EQ(halves.runtime().steps_in_flight(), i < 4 ? 2 : 1);
    EXPECT_EQ(halves.step_count(), i);
    EXPECT_EQ(halves.position().batch, i) << "of the next step to end";
    const StepResult step = halves.end_step();
    EXPECT_EQ(step.step, i);
    EXPECT_EQ(step.tokens, 8 * 8);
    found.push_back(step.loss);
  }
  EXPECT_EQ(found, expected);
}

TEST(OwnLoop, ARateThatIsSetCountsForTheStepsBegunFromThenOn) {
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  engine.begin_step();
  engine.set_learning_rate(0.125);
  engine.begin_step();
  engine.set_learning_rate(0.25);
  EXPECT_NE(engine.end_step().learning_rate, 0.125);
  EXPECT_EQ(engine.end_step().learning_rate, 0.125);
}

TEST(OwnLoop, WhatBelongsBetweenStepsIsRefusedWhileOneIsUnderWay) {
  Engine engine(tiny_gpt(), serial_plan(), small_text());
  Batch batch;
  small_text()->train->fill(engine.batches().sampler(), 0, {0, 8}, batch);
  const TensorMap variables = engine.variables();
  RealFileSystem disk;
  const TestFolder test;
  CheckpointFolder folder(disk, test / "checkpoints");
  engine.begin_step();
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"step()", [&] { engine.step(); }},
      {"step()", [&] { engine.step(batch); }},
      {"accumulate()", [&] { engine.accumulate(batch); }},
      {"evaluate()", [&] { engine.evaluate(1); }},
      {"predict()", [&] { engine.text().predict({1}); }},
      {"generate()", [&] { engine.text().generate({1}, 1, {}); }},
      {"variables()", [&] { engine.variables(); }},
      {"set_variables()", [&] { engine.set_variables(variables); }},
      {"set_position()", [&] { engine.set_position({}); }},
      {"save_checkpoint()", [&] { save_checkpoint(engine, folder, 1); }}};
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << name << " was not refused";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), name + " was called while a step was in flight");
    }
  }
  EXPECT_EQ(engine.end_step().step, 0);
  EXPECT_NO_THROW(engine.evaluate(1));
}

TEST(OwnLoop, AWholeStepIsRefusedWhileGradientsWaitToBeApplied) {
  Engine engine(tiny_mlp(), serial_plan(), small_text()),
      whole(tiny_mlp(), serial_plan(), small_text());
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"step()", [&] { engine.step(); }},
      {"step()", [&] { engine.step(engine.next_batch()); }},
      {"begin_step()", [&] { engine.begin_step(); }}};
  engine.accumulate(engine.next_batch());
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << name << " was not refused";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), name + " was called with gradients that were not applied");
    }
  }
  EXPECT_EQ(engine.accumulated(), 1);
  engine.set_position({});
  EXPECT_EQ(engine.accumulated(), 0);
  whole.step();
  engine.step();
  EXPECT_EQ(engine.step().loss, whole.step().loss) << "the dropped gradients are in the update";
}

TEST(OwnLoop, AScheduleWithoutANumberOfStepsHasThoseOfTheRun) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    RunConfig config = tiny_mlp();
    config.train.steps = 5;
    config.optimizer.schedule = {.kind = kind, .peak = 0.125};
    Engine engine(config, serial_plan(), small_text());
    EXPECT_EQ(engine.config().optimizer.schedule.steps, 5);
    std::vector<double> rates;
    for (int i = 0; i < 5; ++i) rates.push_back(engine.step().learning_rate);
    EXPECT_EQ(rates[0], 0.125);
    EXPECT_EQ(rates[2], 0.0625);
    EXPECT_EQ(rates[4], 0);
  }
}

TEST(OwnLoop, ABatchOfOtherRowsIsRefusedWithBothNumbers) {
  const auto data = small_text();
  Engine engine(tiny_mlp(), serial_plan(), data);
  const Sampler sampler({.samples = data->train->samples(),
                         .batch = 5,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kDrop,
                         .seed = 0});
  const Batch small = data->train->batch(sampler, 0, {0, 5});
  for (const bool in_parts : {false, true}) {
    try {
      if (in_parts)
        engine.accumulate(small);
      else
        engine.step(small);
      FAIL() << "nothing was refused";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), "a batch of i32[5,8] does not fit this training");
      EXPECT_EQ(error.why(), "its step takes tokens i32[8,8]: train.batch rows of samples");
    }
  }
}

}  // namespace
}  // namespace tessera
