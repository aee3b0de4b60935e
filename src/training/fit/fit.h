// The training loop: steps, evaluations, saves and callbacks, in one place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "training/fit/callbacks.h"

namespace tessera {

struct FitOptions {
  int64_t steps = 0;                      // number of steps of this call
  std::vector<Callback*> callbacks = {};  // called in this order; they outlive fit()
  /// The number of batches of a step, each with its own forward and backward (Engine::accumulate);
  /// 0: a compiled step of one batch.
  int64_t accumulate = 0;
  // steps between calls of on_log, which is also called after the first and the last; 0: never
  int64_t log_every = 1;
  int64_t evaluate_every = 0;  // 0: only when a callback asks for it
  int64_t evaluate_batches = 8;
  /// Also when a callback ended training, unless it was in a hurry (TrainingControl::should_hurry).
  bool evaluate_at_end = false;
  OnEvaluatedBatch on_evaluated_batch = {};
  int64_t save_every = 0;  // 0: only when a callback asks for it, and at the end
  /// Writes a checkpoint, or whatever the caller saves; unset: nothing is saved. It is also called
  /// at the end.
  std::function<void(Engine&)> save = {};
  /// Waits until all that `save` has only begun is stored; unset: `save` stores all itself. It is
  /// called at the end, also after an error, but not after the error of a callback, which other
  /// processes may not know of.
  std::function<void()> finish_saves = {};
};

/// An evaluation and the number of steps done before it.
struct EvaluatedStep {
  int64_t step = 0;
  Evaluation evaluation;
};

struct FitResult {
  std::vector<StepResult> steps;
  std::vector<EvaluatedStep> evaluations;
  std::string stop_reason;  // "": all steps were done
};

/// Trains. Nothing is evaluated or saved twice at the same step.
///
///   evaluations  what can be refused of one is prepared before the first step: its program is
///                compiled, and the held-out data is checked. When the evaluation at the end fails
///                nevertheless, an engine that is alone in its run is saved before the
///                error is thrown
///   data         when the data of a step cannot be read, the steps before it are saved, by an
///   engine
///                that is alone in its run, before the error is thrown
///   throws  UserError (78) for a number below 0 in the options; the exception of a step, a
///           callback, `save` or `finish_saves` (callbacks.h lists the callbacks that are told)
FitResult fit(Engine& engine, const FitOptions& options);
/// Trains `steps` steps. Calls `on_step` after each of them; training ends early when it returns
/// false.
std::vector<StepResult> fit(Engine& engine, int64_t steps,
                            const std::function<bool(const StepResult&)>& on_step = {});

}  // namespace tessera
