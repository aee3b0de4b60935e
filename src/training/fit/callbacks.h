// Callbacks of the training loop. They see each event and may ask for an evaluation, a save or the
// end.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "training/engine/engine.h"

namespace tessera {

/// The state of training that a callback may read.
struct TrainingState {
  const Engine& engine;
  int64_t step = 0;       // steps done, in the whole life of the engine
  int64_t last_step = 0;  // the value of `step` at the end
  /// An epoch is one pass over the training data. With FitOptions::accumulate the last step of an
  /// epoch may take the first batches of the next one; the number is then rounded up.
  int64_t steps_per_epoch = 1;
  int64_t epoch = 0;                       // epoch of the first batch of the step, from 0
  const StepResult* result = nullptr;      // of the last step; nullptr before the first
  const Evaluation* evaluation = nullptr;  // the last one; nullptr before the first
  /// The reason for which training ended early, from on_train_end on; "" when it did not.
  std::string stop_reason = {};
  /// The message of the error that ended training, in on_train_end; otherwise "".
  std::string error = {};
};

/// The requests of a callback. They are fulfilled after the step, after on_step_end and
/// on_epoch_end. Requests of on_evaluate are fulfilled at the same step.
struct TrainingControl {
  bool should_evaluate = false;
  bool should_save = false;
  bool should_stop = false;
  bool should_hurry = false;  // the machine is about to stop: no more evaluations, only the save
  std::string stop_reason;

  void stop(std::string reason) {
    should_stop = true;
    stop_reason = std::move(reason);
  }
  void stop_at_once(std::string reason) {
    should_hurry = true;
    stop(std::move(reason));
  }
};

/// The state that a callback needs after a step. It decides whether the next step may be in flight
/// then.
enum class CallbackNeeds {
  /// The callback reads or changes the engine, or asks for an evaluation or a save. Nothing of the
  /// next step has begun.
  kQuiescentEngine,
  /// The callback only reads the metrics that it is given, and asks at most for the end. The next
  /// step may be in flight; it is completed before training ends.
  kMetricsOnly,
};

/// The base of callbacks. There is one function per event, which is empty until overridden. The
/// names and their order are those of the Hugging Face trainer, which users know; that is why there
/// are more than ten.
///
///   order of a step  on_epoch_begin, on_step_begin, [on_substep_end ..., on_pre_optimizer_step,
///                    on_optimizer_step,] on_step_end, on_epoch_end, on_log, on_evaluate, on_save.
///                    Callbacks are called in the order in which they were given
///   in brackets      only with gradient accumulation (FitOptions::accumulate > 0), because a
///                    compiled step is one unit
///   epochs           begin and end with the data, not with the run: a run that is resumed within
///                    an epoch has its on_epoch_begin at its first step, and a run that stops there
///                    has no on_epoch_end
///   errors           an exception of a callback ends training: every other callback gets its
///                    on_train_end, then fit() throws the exception. Callbacks also get
///                    on_train_end when a step throws. Exceptions after the first one are logged
///                    and dropped
///   next step        its events come in this order, but its computation begins before the events
///                    of the previous step when every callback needs kMetricsOnly after that step,
///                    nothing is evaluated or saved then, and the run continues
///   threads          the thread of fit()
class Callback {
 public:
  virtual ~Callback() = default;
  /// Called before each step ends; `step` steps are done then.
  virtual CallbackNeeds needs(int64_t /*step*/) const { return CallbackNeeds::kQuiescentEngine; }
  virtual void on_train_begin(const TrainingState&, TrainingControl&) {}
  virtual void on_epoch_begin(const TrainingState&, TrainingControl&) {}
  virtual void on_step_begin(const TrainingState&, TrainingControl&) {}
  /// Called when a batch was accumulated.
  virtual void on_substep_end(const TrainingState&, TrainingControl&) {}
  /// Called when the gradients were exchanged.
  virtual void on_pre_optimizer_step(const TrainingState&, TrainingControl&) {}
  /// Called when the parameters were updated.
  virtual void on_optimizer_step(const TrainingState&, TrainingControl&) {}
  virtual void on_step_end(const TrainingState&, TrainingControl&) {}
  virtual void on_epoch_end(const TrainingState&, TrainingControl&) {}
  /// Called every FitOptions::log_every steps.
  virtual void on_log(const TrainingState&, TrainingControl&) {}
  virtual void on_evaluate(const TrainingState&, TrainingControl&) {}
  /// Called when the state was saved, or when a save of it in the background has begun.
  virtual void on_save(const TrainingState&, TrainingControl&) {}
  virtual void on_train_end(const TrainingState&, TrainingControl&) {}
};

/// A held-out loss and the number of steps before it.
struct HeldOutLoss {
  int64_t step = 0;
  double loss = 0;
};

/// Stops when the held-out loss has not fallen by more than `min_delta` below its best for
/// `patience` evaluations in a row. A loss that is not a number is no improvement.
///   requires  patience >= 1, min_delta >= 0
///   throws    UserError (78) when they are not
class EarlyStop : public Callback {
 public:
  struct Options {
    int64_t patience = 3;
    double min_delta = 0;
    std::vector<HeldOutLoss> earlier = {};  // of a run that is resumed: those of its evaluations
  };
  explicit EarlyStop(Options options);

  /// It acts on evaluations only, and no step is in flight during an evaluation.
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_train_begin(const TrainingState&, TrainingControl& control) override;
  void on_evaluate(const TrainingState& state, TrainingControl& control) override;

  double best_loss() const { return best_loss_; }  // infinite before the first evaluation
  int64_t best_step() const { return best_step_; }

 private:
  void take(const HeldOutLoss& evaluation, TrainingControl& control);

  Options options_;
  double best_loss_;
  int64_t best_step_ = 0;
  int64_t without_improvement_ = 0;
};

/// Prints a line every FitOptions::log_every steps and a line for each evaluation, with the metrics
/// of the network:
///
///     step: 10  loss: 4.1234  grad_norm: 1.2345
///     step: 10  val_loss: 4.0000  val_accuracy: 0.1000
class PrintProgress : public Callback {
 public:
  /// `out` outlives it.
  explicit PrintProgress(std::ostream& out) : out_(out) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_log(const TrainingState& state, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl&) override;

 private:
  std::ostream& out_;
};

}  // namespace tessera
