#include "tools/cli/internal/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/cli/internal/print/progress.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

double speed_of(const std::vector<StepResult>& steps) {
  double tokens = 0, seconds = 0;
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    tokens += static_cast<double>(steps[i].tokens);
    seconds += steps[i].time.value();
  }
  return seconds > 0 ? tokens / seconds : 0;
}

/// Shows the progress until the last step is done: the last evaluation may take long.
class ShowProgress : public Callback {
 public:
  explicit ShowProgress(std::string unit) : unit_(std::move(unit)) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_train_begin(const TrainingState& state, TrainingControl&) override {
    progress_.emplace(state.last_step, unit_);
  }
  void on_step_end(const TrainingState& state, TrainingControl& control) override {
    progress_->step(state.step, state.result->loss, state.result->grad_norm, state.result->tokens);
    const bool is_last = state.step == state.last_step ||
                         (control.should_stop && state.engine.runtime().steps_in_flight() == 0);
    if (is_last) progress_.reset();
  }
  void on_evaluate(const TrainingState& state, TrainingControl&) override {
    if (progress_)
      progress_->note(
          fmt::format("step: {}  val_loss: {:.4f}", state.step, state.evaluation->loss));
  }
  void on_train_end(const TrainingState&, TrainingControl&) override { progress_.reset(); }

 private:
  std::string unit_;
  std::optional<Progress> progress_;
};

/// What the processes agree on after each step, in one exchange: whether the run ends after the
/// step, because a signal arrived (a step that has already begun is finished), and whether the save
/// in the background can go on.
class AgreeAfterStep : public Callback {
 public:
  AgreeAfterStep(StopSignals* signals, RunCheckpoints* checkpoints, Runtime& runtime)
      : signals_(signals), checkpoints_(checkpoints), runtime_(runtime) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_step_end(const TrainingState&, TrainingControl& control) override {
    if ((!signals_ && !checkpoints_) || received_) return;
    if (signals_) received_ = signals_->received();
    const uint8_t mine = (received_ ? kStop : 0) | (is_writing() ? kWriting : 0);
    const uint8_t all = runtime_.union_of(mine);
    // A signal may reach some processes only, but all must end after the same step.
    if ((all & kStop) != 0 && !received_) received_ = "SIGTERM";
    if (received_) control.stop_at_once(*received_);
    if (checkpoints_) checkpoints_->poll((all & kWriting) != 0);
  }
  const std::optional<std::string>& received() const { return received_; }

 private:
  static constexpr uint8_t kStop = 1, kWriting = 2;
  bool is_writing() const { return checkpoints_ && checkpoints_->is_writing(); }

  StopSignals* signals_;
  RunCheckpoints* checkpoints_;
  Runtime& runtime_;
  std::optional<std::string> received_;
};

/// Tells the checkpoints the loss of each step.
class TellLosses : public Callback {
 public:
  explicit TellLosses(RunCheckpoints& checkpoints) : checkpoints_(checkpoints) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_step_end(const TrainingState& state, TrainingControl&) override {
    checkpoints_.take_loss(state.result->loss);
  }

 private:
  RunCheckpoints& checkpoints_;
};

/// Compares replicas after every step, to detect a machine that computes wrong results.
class CheckReplicas : public Callback {
 public:
  explicit CheckReplicas(Runtime& runtime) : runtime_(runtime) {}
  void on_step_end(const TrainingState&, TrainingControl&) override { runtime_.check_replicas(); }

 private:
  Runtime& runtime_;
};

}  // namespace

std::vector<double> TrainedRun::losses() const {
  std::vector<double> list;
  for (const StepResult& step : fit.steps) list.push_back(step.loss);
  return list;
}

TrainedRun train_to_end(Engine& engine, const RunServices& services) {
  const TrainConfig& train = engine.config().train;
  ShowProgress progress(services.unit);
  AgreeAfterStep watch(services.signals, services.checkpoints, engine.runtime());
  FitOptions options{.steps = std::max<int64_t>(train.steps - engine.step_count(), 0),
                     .callbacks = {&watch, &progress},
                     .evaluate_every = train.evaluate_every,
                     .evaluate_batches = train.evaluate_batches,
                     .evaluate_at_end = services.evaluate_at_end};
  EvaluationProgress evaluation;
  options.on_evaluated_batch = [&](int64_t done, int64_t batches) {
    evaluation.batch(done, batches);
  };
  CheckReplicas check_replicas(engine.runtime());
  if (services.check_replicas) options.callbacks.push_back(&check_replicas);
  if (services.folder)
    for (Callback* writer : services.folder->callbacks()) options.callbacks.push_back(writer);
  std::optional<EarlyStop> early;
  if (train.patience > 0) {
    early.emplace(EarlyStop::Options{train.patience, train.min_improvement, services.earlier});
    options.callbacks.push_back(&*early);
  }
  if (services.best) options.callbacks.push_back(services.best);
  if (services.trace) options.callbacks.push_back(services.trace);
  std::optional<TellLosses> tell_losses;
  if (services.checkpoints) {
    options.callbacks.push_back(&tell_losses.emplace(*services.checkpoints));
    options.save_every = engine.config().checkpoint.every;
    options.save = [&](Engine&) { services.checkpoints->save(); };
    options.finish_saves = [&] { services.checkpoints->finish(); };
  }
  TrainedRun run;
  run.fit = fit(engine, options);
  run.stopped_by = watch.received();
  if (!run.stopped_by && !run.fit.evaluations.empty())
    run.held_out = run.fit.evaluations.back().evaluation;
  run.tokens_per_second = speed_of(run.fit.steps);
  return run;
}

}  // namespace tessera
