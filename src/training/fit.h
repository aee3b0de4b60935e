// The training loop: steps, evaluations, saves and callbacks, in one place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "training/callbacks.h"

namespace tessera {

struct FitOptions {
  int64_t steps = 0;                      // to do from here
  std::vector<Callback*> callbacks = {};  // called in this order; they outlive fit()
  /// Batches of a step, each with its own forward and backward (Engine::accumulate); 0: a compiled
  /// step of one batch.
  int64_t accumulate = 0;
  int64_t log_every = 1;       // steps between on_log, and after the first and the last; 0: never
  int64_t evaluate_every = 0;  // 0: only when a callback asks for it
  int64_t evaluate_batches = 8;
  bool evaluate_at_end = false;  // unless a callback ended training
  int64_t save_every = 0;        // 0: only when a callback asks for it, and at the end
  /// Writes a checkpoint, or what the caller saves; unset: nothing is saved. Also called at the
  /// end.
  std::function<void(Engine&)> save = {};
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
///   throws  UserError (78): a number below 0 in the options; what a step, a callback or `save`
///   threw (callbacks.h says which callbacks are told)
FitResult fit(Engine& engine, const FitOptions& options);
/// Trains `steps` steps. Calls `on_step` after each of them; training ends early when it returns
/// false.
std::vector<StepResult> fit(Engine& engine, int64_t steps,
                            const std::function<bool(const StepResult&)>& on_step = {});

}  // namespace tessera
