// What users hang into training: callbacks see each event of the loop and may ask it to evaluate,
// save or stop. They do not change it.
#pragma once

#include <ostream>
#include <string>

#include "engine/engine.h"

namespace tessera {

/// Where training stands, as a callback sees it.
struct TrainingState {
  const Engine& engine;
  int64_t step = 0;                        // steps done, over all of the engine's life
  int64_t last_step = 0;                   // the number that it ends at
  int64_t steps_per_epoch = 1;             // an epoch is one pass over the training text
  int64_t epoch = 0;                       // the one that the step belongs to, from 0
  const StepResult* result = nullptr;      // of the last step; null before the first
  const Evaluation* evaluation = nullptr;  // the last; null before the first
  std::string stop_reason =
      {};                  // from on_train_end on: why it ended early; "" when it ran to its end
  std::string error = {};  // on_train_end: the message of the error that ended it, or ""
};

/// What a callback may ask for. It is done after the step, behind on_step_end and on_epoch_end;
/// whoever asks from on_evaluate gets the save of the same step.
struct TrainingControl {
  bool should_evaluate = false;
  bool should_save = false;
  bool should_stop = false;
  bool should_hurry = false;  // no evaluation any more, only the save: the machine is about to go
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

/// What a callback means to do after a step, which decides whether the step after it may begin
/// before that.
enum class CallbackNeeds {
  /// It looks at the engine, changes something, or asks for the end, an evaluation or a save:
  /// nothing of the next step has begun.
  kQuiescentEngine,
  /// It reads the numbers that it is given, and asks at most for the end: the next step may be
  /// under way, and is done before the end then.
  kMetricsOnly,
};

/// One function an event, each empty until overridden. The names and their order are those of the
/// Hugging Face trainer, since that is what people know; that is why there are more than ten.
///
///   order of a step  on_epoch_begin, on_step_begin, [on_substep_end ..., on_pre_optimizer_step,
///   on_optimizer_step,] on_step_end,
///                    on_epoch_end, on_log, on_evaluate, on_save; callbacks in the order in which
///                    they were given
///   in brackets      only when a step is taken apart (FitOptions::accumulate > 0): a compiled step
///   is one unit, inside of which nothing
///                    can be seen
///   epochs           begin and end with the text, not with the run: one that is resumed in the
///   middle of an epoch has its on_epoch_begin
///                    at its first step, and one that stops there has no on_epoch_end
///   errors           what a callback throws ends training: every other callback gets its
///   on_train_end, then fit() throws it. Callbacks get
///                    on_train_end too when a step throws. What is thrown after the first error is
///                    logged and dropped
///   next step        its events come in this order, but its computation begins before the events
///   of the step before it when every callback
///                    pays CallbackNeeds::kMetricsOnly after that one, nothing is evaluated or
///                    saved then, and the run goes on
///   threads          that of fit()
class Callback {
 public:
  virtual ~Callback() = default;
  /// Asked before each step ends: `step` steps are done then.
  virtual CallbackNeeds needs(int64_t /*step*/) const { return CallbackNeeds::kQuiescentEngine; }
  virtual void on_train_begin(const TrainingState&, TrainingControl&) {}
  virtual void on_epoch_begin(const TrainingState&, TrainingControl&) {}
  virtual void on_step_begin(const TrainingState&, TrainingControl&) {}
  virtual void on_substep_end(const TrainingState&, TrainingControl&) {}  // a batch was accumulated
  virtual void on_pre_optimizer_step(const TrainingState&, TrainingControl&) {
  }  // gradients are exchanged
  virtual void on_optimizer_step(const TrainingState&, TrainingControl&) {}  // parameters are new
  virtual void on_step_end(const TrainingState&, TrainingControl&) {}
  virtual void on_epoch_end(const TrainingState&, TrainingControl&) {}
  virtual void on_log(const TrainingState&, TrainingControl&) {
  }  // every FitOptions::log_every steps
  virtual void on_evaluate(const TrainingState&, TrainingControl&) {}
  virtual void on_save(const TrainingState&, TrainingControl&) {}
  virtual void on_train_end(const TrainingState&, TrainingControl&) {}
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
  };
  explicit EarlyStop(Options options);

  /// It acts on evaluations only, and with an evaluation no step is under way.
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_train_begin(const TrainingState&, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl& control) override;

  double best_loss() const { return best_loss_; }  // infinite before the first evaluation
  int64_t best_step() const { return best_step_; }

 private:
  Options options_;
  double best_loss_;
  int64_t best_step_ = 0;
  int64_t without_improvement_ = 0;
};

/// A line every FitOptions::log_every steps and a line an evaluation: "step: 10  loss: 4.1234
/// grad_norm: 1.2345", "step: 10  val_loss: 4.0000  val_accuracy: 0.1000". For a bar on a terminal
/// there is the program.
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
