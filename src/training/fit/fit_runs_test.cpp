// Epochs of fit(), and its evaluation at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/testing/error.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunConfig one_layer() {
  RunConfig config = tiny_mlp();
  config.model.layers = 1;
  return config;
}

/// Exactly this number of samples of 8 tokens.
std::shared_ptr<const RunData> text_of(int64_t samples) {
  auto data = std::make_shared<RunData>(*small_text());
  data->train = std::make_shared<const TextDataset>(
      std::vector<int32_t>(static_cast<size_t>(8 * samples + 1), 7), 8, 8);
  return data;
}

/// Records where epochs begin and end, and their numbers.
class Epochs : public Callback {
 public:
  void on_epoch_begin(const TrainingState& state, TrainingControl&) override {
    add("begin ", state);
  }
  void on_epoch_end(const TrainingState& state, TrainingControl&) override { add("end ", state); }

  std::vector<std::string> events;

 private:
  void add(const std::string& event, const TrainingState& state) {
    events.push_back(event + std::to_string(state.epoch) + " at " + std::to_string(state.step) +
                     " of " + std::to_string(state.steps_per_epoch));
  }
};

std::vector<std::string> epochs_of(int64_t samples, int64_t steps, int64_t accumulate) {
  RunConfig config = one_layer();
  config.train.batch = 2;
  Engine engine(config, serial_plan(), text_of(samples));
  Epochs epochs;
  fit(engine, {.steps = steps, .callbacks = {&epochs}, .accumulate = accumulate});
  return epochs.events;
}

TEST(FitRuns, AnEpochIsOnePassOverTheDataHoweverManyBatchesAStepAccumulates) {
  // Four batches.
  EXPECT_THAT(epochs_of(8, 4, 0), ElementsAre("begin 0 at 0 of 4", "end 0 at 4 of 4"));
  EXPECT_THAT(epochs_of(8, 4, 2), ElementsAre("begin 0 at 0 of 2", "end 0 at 2 of 2",
                                              "begin 1 at 2 of 2", "end 1 at 4 of 2"));
  // Three batches: the second step ends the first epoch with one batch and begins the next.
  EXPECT_THAT(epochs_of(6, 3, 2), ElementsAre("begin 0 at 0 of 2", "end 0 at 2 of 2",
                                              "begin 1 at 2 of 2", "end 1 at 3 of 2"));
}

/// Counts the events of the beginning and the end.
class CountsEvents : public Callback {
 public:
  void on_train_begin(const TrainingState&, TrainingControl&) override { ++events; }
  void on_train_end(const TrainingState&, TrainingControl&) override { ++events; }
  int events = 0;
};

/// Ends training after the first step.
class StopsAtOnce : public Callback {
 public:
  explicit StopsAtOnce(bool hurries) : hurries_(hurries) {}
  void on_step_end(const TrainingState&, TrainingControl& control) override {
    hurries_ ? control.stop_at_once("SIGTERM") : control.stop("enough");
  }

 private:
  bool hurries_;
};

/// The message of a refusal by fit() that no callback heard of and before which no step was done.
std::string refused_before_the_steps(ExitCode code, Engine& engine, FitOptions options) {
  CountsEvents counter;
  options.callbacks = {&counter};
  const std::string message = error_testing::message_of(code, [&] { fit(engine, options); });
  EXPECT_EQ(engine.step_count(), 0);
  EXPECT_EQ(counter.events, 0);
  return message;
}

TEST(FitRuns, HeldOutDataThatFillsNoBatchIsRefusedBeforeTheFirstStep) {
  auto data = std::make_shared<RunData>(*pairs_of_points());
  data->held_out = std::make_shared<const PairsOfPoints>(5);
  Engine engine(distance_network(), distance_settings(), serial_plan(), data);
  const std::string expected =
      "the held-out data has 5 samples, which do not fill a batch of 12 rows\n"
      "  why: an evaluation leaves out held-out samples that fill no batch, and none would be "
      "left\n"
      "  fix: hold out more data (data.held_out, or RunData::held_out), or make the batch smaller";
  EXPECT_EQ(
      refused_before_the_steps(ExitCode::kBadData, engine, {.steps = 2, .evaluate_at_end = true}),
      expected);
  EXPECT_EQ(refused_before_the_steps(ExitCode::kBadData, engine, {.steps = 5, .evaluate_every = 4}),
            expected);
  fit(engine, {.steps = 3, .evaluate_every = 4});
  EXPECT_EQ(engine.step_count(), 3) << "nothing was to be evaluated";
}

TEST(FitRuns, APlanUnderWhichTheEvaluationIsRefusedIsRefusedBeforeTheFirstStep) {
  Plan plan = plan_of("gpt", "dp2");
  // In evaluation, without dropout, the module has one input.
  plan.marks.push_back(shard_module("blocks.0", "[P(\"dp\"), P()] -> [P(\"dp\")]"));
  Engine engine(tiny_gpt(), plan, small_text());
  EXPECT_THAT(
      refused_before_the_steps(ExitCode::kBadConfig, engine, {.steps = 2, .evaluate_at_end = true}),
      HasSubstr("blocks.0"));
}

TEST(FitRuns, WhatFailsInTheEvaluationAtTheEndDoesNotLoseTheSteps) {
  Engine engine(one_layer(), serial_plan(), small_text());
  std::vector<int64_t> saved;
  EXPECT_THROW(fit(engine, {.steps = 2,
                            .evaluate_at_end = true,
                            .on_evaluated_batch =
                                [](int64_t, int64_t) { throw std::runtime_error("no paper"); },
                            .save = [&](Engine& e) { saved.push_back(e.step_count()); }}),
               std::runtime_error);
  EXPECT_THAT(saved, ElementsAre(2));
}

TEST(FitRuns, TheEvaluationAtTheEndIsDoneWhenACallbackEndedTrainingUnlessItWasInAHurry) {
  for (const bool hurries : {false, true}) {
    Engine engine(one_layer(), serial_plan(), small_text());
    StopsAtOnce stop(hurries);
    const FitResult result = fit(
        engine, {.steps = 3, .callbacks = {&stop}, .evaluate_batches = 1, .evaluate_at_end = true});
    EXPECT_EQ(result.evaluations.size(), hurries ? 0U : 1U);
  }
}

}  // namespace
}  // namespace tessera
