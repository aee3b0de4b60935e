#include "training/fit/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/text/text.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Records each event as "name step"; some can be left out.
class Recorder : public Callback {
 public:
  void on_train_begin(const TrainingState& s, TrainingControl&) override { add("train_begin", s); }
  void on_epoch_begin(const TrainingState& s, TrainingControl&) override { add("epoch_begin", s); }
  void on_step_begin(const TrainingState& s, TrainingControl&) override { add("step_begin", s); }
  void on_substep_end(const TrainingState& s, TrainingControl&) override { add("substep_end", s); }
  void on_pre_optimizer_step(const TrainingState& s, TrainingControl&) override {
    add("pre_optimizer_step", s);
  }
  void on_optimizer_step(const TrainingState& s, TrainingControl&) override {
    add("optimizer_step", s);
  }
  void on_step_end(const TrainingState& s, TrainingControl&) override { add("step_end", s); }
  void on_epoch_end(const TrainingState& s, TrainingControl&) override { add("epoch_end", s); }
  void on_log(const TrainingState& s, TrainingControl&) override { add("log", s); }
  void on_evaluate(const TrainingState& s, TrainingControl&) override { add("evaluate", s); }
  void on_save(const TrainingState& s, TrainingControl&) override { add("save", s); }
  void on_train_end(const TrainingState& s, TrainingControl&) override {
    add("train_end", s);
    stop_reason = s.stop_reason;
  }

  std::vector<std::string> events;
  std::string stop_reason = "not heard";

 private:
  void add(const std::string& name, const TrainingState& state) {
    events.push_back(name + " " + std::to_string(state.step));
  }
};

/// Calls a function at the end of one step.
class AtStep : public Callback {
 public:
  AtStep(int64_t step, std::function<void(TrainingControl&)> act)
      : step_(step), act_(std::move(act)) {}
  void on_step_end(const TrainingState& state, TrainingControl& control) override {
    if (state.step == step_) act_(control);
  }

 private:
  int64_t step_;
  std::function<void(TrainingControl&)> act_;
};

RunConfig small_run() {
  RunConfig config = tiny_mlp();
  config.model.layers = 1;
  return config;
}

/// Exactly 5 samples of 8 tokens, of which each epoch takes two batches of 2.
std::shared_ptr<const RunData> text_of_two_steps() {
  auto data = std::make_shared<RunData>(*small_text());
  data->train = std::make_shared<const TextDataset>(std::vector<int32_t>(8 * 5 + 1, 7), 8, 8);
  return data;
}

TEST(Fit, TellsEachEventInTheOrderOfTheContract) {
  RunConfig config = small_run();
  config.train.batch = 2;
  Engine engine(config, serial_plan(), text_of_two_steps());
  Recorder recorder;
  int saves = 0;
  fit(engine, {.steps = 3,
               .callbacks = {&recorder},
               .log_every = 2,
               .evaluate_every = 2,
               .evaluate_batches = 1,
               .save_every = 2,
               .save = [&](Engine&) { ++saves; }});
  EXPECT_THAT(
      recorder.events,
      ElementsAre("train_begin 0", "epoch_begin 0", "step_begin 0", "step_end 1", "log 1",       //
                  "step_begin 1", "step_end 2", "epoch_end 2", "log 2", "evaluate 2", "save 2",  //
                  "epoch_begin 2", "step_begin 2", "step_end 3", "log 3", "save 3", "train_end 3"));
  EXPECT_EQ(saves, 2);
  EXPECT_EQ(recorder.stop_reason, "");
}

TEST(Fit, GivesTheHistoryOfStepsAndEvaluations) {
  Engine engine(small_run(), serial_plan(), small_text());
  const FitResult result = fit(
      engine, {.steps = 4, .evaluate_every = 3, .evaluate_batches = 2, .evaluate_at_end = true});
  ASSERT_EQ(result.steps.size(), 4u);
  EXPECT_EQ(result.steps[3].step, 3);
  ASSERT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.evaluations[0].step, 3);
  EXPECT_EQ(result.evaluations[1].step, 4);
  EXPECT_EQ(result.evaluations[1].evaluation.loss, engine.evaluate(2).loss);
}

TEST(Fit, GoesOnWhereTheStepsBeforeItEnded) {
  Engine once(small_run(), serial_plan(), small_text()),
      twice(small_run(), serial_plan(), small_text());
  const FitResult whole = fit(once, {.steps = 4});
  fit(twice, {.steps = 2});
  const FitResult rest = fit(twice, {.steps = 2});
  EXPECT_EQ(rest.steps.back().step, 3);
  EXPECT_EQ(rest.steps.back().loss, whole.steps.back().loss);
}

TEST(Fit, NothingIsEvaluatedOrSavedTwiceAtOneStep) {
  Engine engine(small_run(), serial_plan(), small_text());
  int saves = 0;
  const FitResult result = fit(engine, {.steps = 2,
                                        .evaluate_every = 1,
                                        .evaluate_batches = 1,
                                        .evaluate_at_end = true,
                                        .save_every = 1,
                                        .save = [&](Engine&) { ++saves; }});
  EXPECT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(saves, 2);
}

TEST(Fit, ACallbackMayAskForAnEvaluationASaveAndTheEnd) {
  Engine engine(small_run(), serial_plan(), small_text());
  Recorder recorder;
  AtStep evaluate(1, [](TrainingControl& control) { control.should_evaluate = true; });
  AtStep save(2, [](TrainingControl& control) { control.should_save = true; });
  AtStep stop(3, [](TrainingControl& control) { control.stop("enough"); });
  const FitResult result = fit(engine, {.steps = 10,
                                        .callbacks = {&recorder, &evaluate, &save, &stop},
                                        .log_every = 0,
                                        .evaluate_batches = 1,
                                        .save = [](Engine&) {}});
  EXPECT_THAT(recorder.events,
              ElementsAre("train_begin 0", "epoch_begin 0", "step_begin 0", "step_end 1",
                          "evaluate 1", "step_begin 1", "step_end 2", "save 2", "step_begin 2",
                          "step_end 3", "save 3", "train_end 3"));
  EXPECT_EQ(result.stop_reason, "enough");
  EXPECT_EQ(recorder.stop_reason, "enough");
  EXPECT_EQ(result.steps.size(), 3u);
}

TEST(Fit, WithoutASaveNothingIsSavedWhoeverAsks) {
  Engine engine(small_run(), serial_plan(), small_text());
  Recorder recorder;
  AtStep save(1, [](TrainingControl& control) { control.should_save = true; });
  fit(engine, {.steps = 1, .callbacks = {&recorder, &save}, .log_every = 0, .save_every = 1});
  EXPECT_THAT(recorder.events, ElementsAre("train_begin 0", "epoch_begin 0", "step_begin 0",
                                           "step_end 1", "train_end 1"));
}

TEST(Fit, ACallbackThatThrowsEndsTrainingWithItsErrorAndTheOthersHearTheEnd) {
  Engine engine(small_run(), serial_plan(), small_text());
  Recorder before, after;
  AtStep broken(2, [](TrainingControl&) { throw std::runtime_error("the disk is gone"); });
  std::string message;
  try {
    fit(engine, {.steps = 5, .callbacks = {&before, &broken, &after}, .log_every = 0});
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "the disk is gone");
  EXPECT_EQ(before.events.back(), "train_end 2");
  EXPECT_EQ(after.events.back(), "train_end 2");
  EXPECT_THAT(after.events, testing::Not(testing::Contains("step_end 2")));
  EXPECT_EQ(before.stop_reason, "an error ended training");
}

TEST(Fit, AStepThatThrowsIsHeardByAll) {
  RunConfig config = small_run();
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.clip_norm = 0;
  Engine engine(config, serial_plan(), small_text());
  engine.set_learning_rate(1e30);
  Recorder recorder;
  EXPECT_THROW(fit(engine, {.steps = 20, .callbacks = {&recorder}}), UserError);
  EXPECT_TRUE(recorder.events.back().starts_with("train_end"));
  EXPECT_EQ(recorder.stop_reason, "an error ended training");
}

TEST(Fit, RefusesNumbersBelowZero) {
  Engine engine(small_run(), serial_plan(), small_text());
  EXPECT_THROW(fit(engine, {.steps = -1}), UserError);
  EXPECT_THROW(fit(engine, {.steps = 1, .evaluate_every = -1}), UserError);
}

// ---- steps that follow each other without a pause ----

/// Observes each step and reads only metrics. It counts the steps that were in flight after it.
class Watcher : public Callback {
 public:
  explicit Watcher(CallbackNeeds attention = CallbackNeeds::kMetricsOnly) : attention_(attention) {}
  CallbackNeeds needs(int64_t) const override { return attention_; }
  void on_step_begin(const TrainingState& s, TrainingControl&) override {
    events.push_back("begin " + std::to_string(s.step));
  }
  void on_step_end(const TrainingState& s, TrainingControl& control) override {
    events.push_back("end " + std::to_string(s.step));
    under_way.push_back(s.engine.runtime().steps_in_flight());
    EXPECT_EQ(s.engine.step_count(), s.step);
    if (act) act(s.step, control);
  }
  void on_train_end(const TrainingState& s, TrainingControl&) override {
    events.push_back("train end " + std::to_string(s.step));
  }

  std::vector<std::string> events;
  std::vector<int> under_way;
  std::function<void(int64_t, TrainingControl&)> act;

 private:
  CallbackNeeds attention_;
};

std::vector<double> losses_of(const std::vector<StepResult>& steps) {
  std::vector<double> losses;
  for (const StepResult& step : steps) losses.push_back(step.loss);
  return losses;
}

std::vector<std::byte> bits_of(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + byte_size(tensor.type()).value()};
}

TEST(FitWithoutPauses, TheNextStepIsUnderWayWhereNobodyMinds) {
  Engine engine(small_run(), serial_plan(), small_text());
  Watcher watcher;
  fit(engine, {.steps = 7,
               .callbacks = {&watcher},
               .evaluate_every = 3,
               .evaluate_batches = 1,
               .save_every = 5,
               .save = [](Engine& saved) { EXPECT_EQ(saved.runtime().steps_in_flight(), 0); }});
  EXPECT_THAT(watcher.under_way, ElementsAre(1, 1, 0, 1, 0, 0, 0))
      << "none after 3 and 6, 5, and the last one";
  EXPECT_THAT(watcher.events, ElementsAre("begin 0", "end 1", "begin 1", "end 2", "begin 2",
                                          "end 3", "begin 3", "end 4", "begin 4", "end 5",
                                          "begin 5", "end 6", "begin 6", "end 7", "train end 7"));
}

TEST(FitWithoutPauses, OneWhoLooksAtTheWholeRunMakesEachStepWait) {
  Engine engine(small_run(), serial_plan(), small_text());
  Watcher numbers, whole(CallbackNeeds::kQuiescentEngine);
  fit(engine, {.steps = 3, .callbacks = {&numbers, &whole}});
  EXPECT_THAT(whole.under_way, ElementsAre(0, 0, 0));
}

TEST(FitWithoutPauses, LossesRatesAndStateAreThoseOfSingleSteps) {
  for (const char* plan : {"serial", "dp2", "pp2-m2", "dp2-pp2-m2"})
    for (const double clip_norm :
         {0.0, 1.0}) {  // without the norm of all stages each stage updates alone
      RunConfig config = tiny_gpt();
      config.optimizer.clip_norm = clip_norm;
      config.optimizer.schedule.warmup = 3;
      Engine alone(config, plan_of("gpt", plan), small_text()),
          together(config, plan_of("gpt", plan), small_text());
      std::vector<double> losses, rates, found_rates;
      float weight_after_4 = 0;
      for (int i = 0; i < 6; ++i) {
        const StepResult step = alone.step();
        losses.push_back(step.loss);
        rates.push_back(step.learning_rate);
        if (i == 3) weight_after_4 = alone.variables().at("head.weight").values<float>()[0];
      }
      float saved_weight = 0;
      const auto save = [&](Engine& engine) {
        if (engine.step_count() == 4)
          saved_weight = engine.variables().at("head.weight").values<float>()[0];
      };
      const FitResult fitted = fit(together, {.steps = 6, .save_every = 4, .save = save});
      EXPECT_EQ(saved_weight, weight_after_4) << plan;
      for (const StepResult& step : fitted.steps) found_rates.push_back(step.learning_rate);
      EXPECT_EQ(losses_of(fitted.steps), losses) << plan;
      EXPECT_EQ(found_rates, rates) << plan;
      const TensorMap expected = alone.variables(), found = together.variables();
      for (const auto& [name, tensor] : expected)
        EXPECT_EQ(bits_of(tensor), bits_of(found.at(name))) << plan << ": " << name;
      EXPECT_EQ(together.position().batch, 6);
    }
}

TEST(FitWithoutPauses, WhoAsksForTheEndByNumbersGetsItBehindTheStepUnderWay) {
  Engine engine(small_run(), serial_plan(), small_text());
  Watcher watcher;
  watcher.act = [](int64_t step, TrainingControl& control) {
    if (step == 2) control.stop("enough");
  };
  const FitResult result = fit(engine, {.steps = 9, .callbacks = {&watcher}});
  EXPECT_EQ(result.stop_reason, "enough");
  EXPECT_EQ(result.steps.size(), 3U);
  EXPECT_EQ(watcher.events.back(), "train end 3");
  EXPECT_EQ(engine.step_count(), 3);
}

TEST(FitWithoutPauses, WhatIsAskedForIsDoneBehindTheStepUnderWay) {
  Engine engine(small_run(), serial_plan(), small_text());
  Watcher watcher;
  watcher.act = [](int64_t step, TrainingControl& control) {
    if (step == 2) control.should_evaluate = control.should_save = true;
  };
  std::vector<int64_t> saved;
  const FitResult result =
      fit(engine,
          {.steps = 5, .callbacks = {&watcher}, .evaluate_batches = 1, .save = [&](Engine& saving) {
             saved.push_back(saving.step_count());
           }});
  ASSERT_EQ(result.evaluations.size(), 1U);
  EXPECT_EQ(result.evaluations[0].step, 3);
  EXPECT_THAT(saved, ElementsAre(3, 5));
}

TEST(FitWithoutPauses, WhenACallbackThrowsTheStepUnderWayIsDoneAndTheEngineGoesOn) {
  Engine engine(small_run(), serial_plan(), small_text()),
      plain(small_run(), serial_plan(), small_text());
  Watcher watcher, other;
  watcher.act = [](int64_t step, TrainingControl&) {
    if (step == 2) throw std::runtime_error("the disk is gone");
  };
  EXPECT_THROW(fit(engine, {.steps = 9, .callbacks = {&watcher, &other}}), std::runtime_error);
  EXPECT_EQ(other.events.back(), "train end 2");
  EXPECT_EQ(engine.runtime().steps_in_flight(), 0);
  EXPECT_EQ(engine.step_count(), 3);
  for (int i = 0; i < 3; ++i) plain.step();
  EXPECT_EQ(engine.step().loss, plain.step().loss);
}

/// A text of which one sample cannot be read.
class DamagedText : public Dataset {
 public:
  DamagedText(DatasetPtr text, int64_t damaged)
      : Dataset(text->fields()), text_(std::move(text)), damaged_(damaged) {}
  int64_t samples() const override { return text_->samples(); }
  uint64_t fingerprint() const override { return text_->fingerprint(); }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    if (sample == damaged_)
      throw UserError("the text is damaged", "a page is missing", "find it", ExitCode::kBadData);
    text_->write(sample, row, batch);
  }

 private:
  DatasetPtr text_;
  int64_t damaged_;
};

TEST(FitWithoutPauses, ABatchThatCannotBeReadIsHeardOfAfterTheStepBeforeIt) {
  RunConfig config = small_run();
  auto data = std::make_shared<RunData>(*small_text());
  // The first sample of the third batch.
  data->train = std::make_shared<const DamagedText>(data->train, 2 * config.train.batch);
  config.data.shuffle = Shuffle::kNone;
  Engine engine(config, serial_plan(), data);
  Watcher watcher;
  EXPECT_THROW(fit(engine, {.steps = 9, .callbacks = {&watcher}}), UserError);
  EXPECT_EQ(watcher.events, (std::vector<std::string>{"begin 0", "end 1", "begin 1", "end 2",
                                                      "begin 2", "train end 2"}));
}

TEST(Fit, StepsBeforeDataThatCannotBeReadAreSaved) {
  RunConfig config = small_run();
  auto data = std::make_shared<RunData>(*small_text());
  data->train = std::make_shared<const DamagedText>(data->train, 3 * config.train.batch);
  config.data.shuffle = Shuffle::kNone;
  Engine engine(config, serial_plan(), data);
  std::vector<int64_t> saved;
  int finished = 0;
  const FitOptions options{.steps = 9,
                           .save = [&](Engine& of) { saved.push_back(of.step_count()); },
                           .finish_saves = [&] { ++finished; }};
  EXPECT_THROW(fit(engine, options), UserError);
  EXPECT_THAT(saved, ElementsAre(3));
  EXPECT_EQ(finished, 1);
}

// ---- early stop ----

/// The result of an early stop for a sequence of held-out losses, one per step: the step at which
/// it stops, or 0.
int64_t stops_at(EarlyStop& early, const Engine& engine, const std::vector<double>& losses) {
  TrainingState state{.engine = engine};
  TrainingControl control;
  early.on_train_begin(state, control);
  for (double loss : losses) {
    const Evaluation evaluation{.loss = loss};
    ++state.step;
    state.evaluation = &evaluation;
    early.on_evaluate(state, control);
    if (control.should_stop) return state.step;
  }
  return 0;
}

TEST(EarlyStop, WaitsForSoManyEvaluationsInARowWithoutImprovement) {
  const Engine engine(small_run(), serial_plan(), small_text());
  EarlyStop early({.patience = 2});
  EXPECT_EQ(stops_at(early, engine, {3, 2, 2.5, 1.9, 2, 2}), 6);
  EXPECT_EQ(early.best_loss(), 1.9);
  EXPECT_EQ(early.best_step(), 4);
  EXPECT_EQ(stops_at(early, engine, {3, 2, 2.5, 1.9, 2, 1.8}), 0);
}

TEST(EarlyStop, ASmallFallIsNoImprovementAndNeitherIsWhatIsNotANumber) {
  const Engine engine(small_run(), serial_plan(), small_text());
  EarlyStop early({.patience = 2, .min_delta = 0.5});
  EXPECT_EQ(stops_at(early, engine, {3, 2.5, 2.5}), 3);       // 3 - 2.5 is not more than 0.5
  EXPECT_EQ(stops_at(early, engine, {3, 2.4, 2.0, 1.8}), 0);  // 2.0 is not enough below 2.4, 1.8 is
  EXPECT_EQ(stops_at(early, engine, {std::nan(""), std::nan("")}), 2);
}

TEST(EarlyStop, EndsARunThatStoppedLearning) {
  RunConfig config = small_run();
  config.optimizer.schedule.peak = 0;  // nothing is ever learned
  Engine engine(config, serial_plan(), small_text());
  EarlyStop early({.patience = 3});
  const FitResult result =
      fit(engine, {.steps = 50, .callbacks = {&early}, .evaluate_every = 2, .evaluate_batches = 1});
  EXPECT_EQ(result.steps.size(), 8u);  // evaluations at 2 (the best), 4, 6, 8
  EXPECT_THAT(result.stop_reason, HasSubstr("has not fallen since step 2"));
}

TEST(EarlyStop, SaysByHowMuchTheLossHadToFall) {
  const Engine engine(small_run(), serial_plan(), small_text());
  const auto reason = [&](double min_delta, const std::vector<HeldOutLoss>& earlier) {
    EarlyStop early({.patience = 2, .min_delta = min_delta, .earlier = earlier});
    TrainingControl control;
    early.on_train_begin({.engine = engine}, control);
    return control.stop_reason;
  };
  EXPECT_EQ(reason(0.5, {{10, 4}, {20, 3.75}, {30, 3.5}}),
            "the held-out loss has not fallen by more than 0.5 below 4.0000 since step 10");
  EXPECT_EQ(reason(0.25, {{10, 4}, {20, 3.5}, {30, 3.25}, {40, 3.25}}),
            "the held-out loss has not fallen by more than 0.25 below 3.5000 since step 20");
  EXPECT_EQ(reason(0, {{10, 4}, {20, 4}, {30, 4}}),
            "the held-out loss has not fallen since step 10, where it was 4.0000");
}

TEST(EarlyStop, RefusesToWaitForNothing) {
  EXPECT_THROW(EarlyStop({.patience = 0}), UserError);
  EXPECT_THROW(EarlyStop({.patience = 1, .min_delta = -1}), UserError);
}

TEST(PrintProgress, WritesALineALogAndALineAnEvaluation) {
  Engine engine(small_run(), serial_plan(), small_text());
  std::ostringstream out;
  PrintProgress print(out);
  const FitResult result = fit(engine, {.steps = 2,
                                        .callbacks = {&print},
                                        .log_every = 2,
                                        .evaluate_every = 2,
                                        .evaluate_batches = 1});
  const std::vector<std::string> lines = split_text(out.str(), '\n');
  ASSERT_EQ(lines.size(), 4u)
      << out.str();  // steps 1 and 2, the evaluation, and the end of the last line
  EXPECT_TRUE(lines[0].starts_with("step: 1  loss: ")) << lines[0];
  EXPECT_THAT(lines[1], HasSubstr("  grad_norm: "));
  EXPECT_TRUE(lines[2].starts_with("step: 2  val_loss: ")) << lines[2];
}

}  // namespace
}  // namespace tessera
