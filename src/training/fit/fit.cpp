#include "training/fit/fit.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/log.h"

namespace tessera {
namespace {

using Event = void (Callback::*)(const TrainingState&, TrainingControl&);

void check_options(const FitOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"steps", options.steps}, std::pair{"accumulate", options.accumulate},
        std::pair{"log_every", options.log_every},
        std::pair{"evaluate_every", options.evaluate_every},
        std::pair{"evaluate_batches", options.evaluate_batches},
        std::pair{"save_every", options.save_every}})
    if (value < 0)
      throw UserError(
          "fit with " + std::string(name) + " = " + std::to_string(value) + " is not possible",
          "numbers of steps and batches are at least 0", "give 0 or more", ExitCode::kBadConfig);
}

/// Is there an evaluation without the request of a callback?
bool will_evaluate(const FitOptions& options, int64_t first_step) {
  if (options.evaluate_at_end) return true;
  const int64_t every = options.evaluate_every;
  return every > 0 && (first_step + options.steps) / every > first_step / every;
}

/// Does it say that data is damaged or missing? The state of the run is then as good as before.
bool is_of_data(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& known) {
    return known.exit_code() == ExitCode::kBadData || known.exit_code() == ExitCode::kMissingInput;
  } catch (...) {
    return false;
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

class Fit {
 public:
  Fit(Engine& engine, const FitOptions& options)
      : engine_(engine),
        options_(options),
        first_step_(engine.step_count()),
        batches_per_epoch_(engine.batches().steps_per_epoch()),
        state_{.engine = engine,
               .step = first_step_,
               .last_step = first_step_ + options.steps,
               .steps_per_epoch = steps_for(batches_per_epoch_, options.accumulate)} {}

  FitResult run() {
    try {
      tell(&Callback::on_train_begin);
      while (engine_.runtime().steps_in_flight() > 0 ||
             (state_.step < state_.last_step && !control_.should_stop))
        one_step();
      if (state_.step < state_.last_step)
        state_.stop_reason =
            control_.stop_reason.empty() ? "a callback asked for it" : control_.stop_reason;
      if (options_.evaluate_at_end) evaluate_at_end();
      if (options_.save) save();
      if (options_.finish_saves) options_.finish_saves();
    } catch (...) {
      end_after(std::current_exception());
    }
    end();
    result_.stop_reason = state_.stop_reason;
    return std::move(result_);
  }

 private:
  void one_step() {
    const bool first_of_epoch = state_.step == first_step_ || epoch_of_next_batch() > state_.epoch;
    state_.epoch = epoch_of_next_batch();
    if (first_of_epoch) tell(&Callback::on_epoch_begin);
    tell(&Callback::on_step_begin);
    result_.steps.push_back(options_.accumulate > 0 ? step_in_parts() : whole_step());
    state_.result = &result_.steps.back();
    state_.step = engine_.step_count();
    tell(&Callback::on_step_end);
    if (epoch_of_next_batch() > state_.epoch) tell(&Callback::on_epoch_end);
    if (is_due(options_.log_every) || (options_.log_every > 0 && (state_.step == first_step_ + 1 ||
                                                                  state_.step == state_.last_step)))
      tell(&Callback::on_log);
    if (engine_.runtime().steps_in_flight() > 0)
      return;  // requests are fulfilled after the last step in flight
    if (is_due(options_.evaluate_every) || control_.should_evaluate) evaluate();
    if (options_.save && (is_due(options_.save_every) || control_.should_save)) save();
    control_.should_evaluate = control_.should_save = false;
  }

  /// The number of steps that take n batches; the last one may take further ones.
  static int64_t steps_for(int64_t batches, int64_t accumulate) {
    const int64_t batches_of_step = std::max<int64_t>(accumulate, 1);
    return (batches + batches_of_step - 1) / batches_of_step;
  }

  /// The epoch of the first batch that no reported step has taken.
  int64_t epoch_of_next_batch() const { return engine_.position().batch / batches_per_epoch_; }

  /// The step that is reported next. The following step is begun before its end when that is
  /// allowed.
  StepResult whole_step() {
    if (begin_error_) std::rethrow_exception(begin_error_);
    if (engine_.runtime().steps_in_flight() == 0) engine_.begin_step();
    if (may_begin_another()) {
      try {
        engine_.begin_step();
      } catch (...) {  // the previous step is reported first
        begin_error_ = std::current_exception();
      }
    }
    return engine_.end_step();
  }

  /// Does another step follow the one that ends next, with nothing to do between them?
  bool may_begin_another() const {
    const int64_t done = state_.step + 1;
    if (done == state_.last_step || control_.should_stop || control_.should_evaluate ||
        control_.should_save)
      return false;
    if (is_multiple(done, options_.evaluate_every) ||
        (options_.save && is_multiple(done, options_.save_every)))
      return false;
    return std::ranges::all_of(options_.callbacks, [&](const Callback* callback) {
      return callback->needs(done) == CallbackNeeds::kMetricsOnly;
    });
  }

  StepResult step_in_parts() {
    for (int64_t i = 0; i < options_.accumulate; ++i) {
      engine_.accumulate(engine_.next_batch());
      tell(&Callback::on_substep_end);
    }
    engine_.all_reduce_gradients();
    tell(&Callback::on_pre_optimizer_step);
    const StepResult result = engine_.apply_gradients();
    tell(&Callback::on_optimizer_step);
    return result;
  }

  static bool is_multiple(int64_t steps, int64_t every) { return every > 0 && steps % every == 0; }
  bool is_due(int64_t every) const { return is_multiple(state_.step, every); }

  void evaluate() {
    if (control_.should_hurry) return;
    if (!result_.evaluations.empty() && result_.evaluations.back().step == state_.step) return;
    result_.evaluations.push_back(
        {state_.step, engine_.evaluate(options_.evaluate_batches, options_.on_evaluated_batch)});
    state_.evaluation = &result_.evaluations.back().evaluation;
    tell(&Callback::on_evaluate);
  }

  /// An evaluation that fails does not lose the steps before it.
  void evaluate_at_end() {
    try {
      evaluate();
    } catch (const std::exception&) {
      save_after_error();
      throw;
    }
  }

  /// Of several processes the others may not know of the error, so they do not save; neither does a
  /// run whose callback threw.
  void save_after_error() {
    const Runtime& runtime = engine_.runtime();
    if (!options_.save || telling_ || std::ssize(runtime.local_ranks()) != runtime.ranks()) return;
    try {
      save();
    } catch (const std::exception& later) {
      log_warning("a save failed after an error had ended training: " + std::string(later.what()));
    }
  }

  void save() {
    if (saved_step_ == state_.step) return;
    options_.save(engine_);
    saved_step_ = state_.step;
    tell(&Callback::on_save);
  }

  void tell(Event event) {
    for (Callback* callback : options_.callbacks) {
      telling_ = callback;
      (callback->*event)(state_, control_);
    }
    telling_ = nullptr;
  }

  /// Calls on_train_end of every callback, even when another one throws there. The first error is
  /// thrown afterwards.
  void end() {
    std::exception_ptr first;
    for (Callback* callback : options_.callbacks) {
      try {
        callback->on_train_end(state_, control_);
      } catch (const std::exception& error) {
        if (first)
          log_warning("a callback failed at the end of training: " + std::string(error.what()));
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  /// Ends the steps in flight without reporting them: their errors, such as a loss that is still
  /// not a number, are not the first one.
  void let_steps_end() {
    while (engine_.runtime().steps_in_flight() > 0) {
      try {
        engine_.end_step();
      } catch (const std::exception&) {
        continue;
      }
    }
  }

  /// Finishes saves that are pending when an error ends training: they are of states before it.
  void finish_saves_after_error() {
    if (!options_.finish_saves || telling_) return;
    try {
      options_.finish_saves();
    } catch (const std::exception& later) {
      log_warning("a save failed after an error had ended training: " + std::string(later.what()));
    }
  }

  [[noreturn]] void end_after(const std::exception_ptr& error) {
    let_steps_end();
    if (is_of_data(error)) save_after_error();
    finish_saves_after_error();
    state_.stop_reason = "an error ended training";
    state_.error = message_of(error);
    for (Callback* callback : options_.callbacks) {
      if (callback == telling_) continue;  // it threw
      try {
        callback->on_train_end(state_, control_);
      } catch (const std::exception& later) {
        log_warning("a callback failed after an error had ended training: " +
                    std::string(later.what()));
      }
    }
    std::rethrow_exception(error);
  }

  Engine& engine_;
  const FitOptions& options_;
  const int64_t first_step_;
  const int64_t batches_per_epoch_;
  FitResult result_;
  TrainingState state_;
  TrainingControl control_;
  const Callback* telling_ = nullptr;
  std::exception_ptr begin_error_;  // of the step after the one that ended last
  int64_t saved_step_ = -1;
};

/// Calls a function after each step, and ends when it returns false.
class AfterStep : public Callback {
 public:
  explicit AfterStep(const std::function<bool(const StepResult&)>& on_step) : on_step_(on_step) {}
  CallbackNeeds needs(int64_t) const override {
    return on_step_ ? CallbackNeeds::kQuiescentEngine : CallbackNeeds::kMetricsOnly;
  }
  void on_step_end(const TrainingState& state, TrainingControl& control) override {
    if (on_step_ && !on_step_(*state.result))
      control.stop("the function after the step asked for it");
  }

 private:
  const std::function<bool(const StepResult&)>& on_step_;
};

}  // namespace

FitResult fit(Engine& engine, const FitOptions& options) {
  check_options(options);
  if (will_evaluate(options, engine.step_count())) engine.prepare_evaluation();
  return Fit(engine, options).run();
}

std::vector<StepResult> fit(Engine& engine, int64_t steps,
                            const std::function<bool(const StepResult&)>& on_step) {
  AfterStep after(on_step);
  return fit(engine, {.steps = steps, .callbacks = {&after}, .log_every = 0}).steps;
}

}  // namespace tessera
