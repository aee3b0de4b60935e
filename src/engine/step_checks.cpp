#include "engine/step_checks.h"

#include <cmath>
#include <string>

#include "base/error.h"

namespace tessera {

void check_rows(const std::vector<Field>& wanted, const Batch& batch) {
  for (const auto& [name, type] : wanted) {
    const Tensor* given = batch.find(name);
    if (given && given->type() == type) continue;
    throw UserError(
        "a batch " + (given ? "of " + to_text(given->type()) : "without " + name) +
            " does not fit this training",
        "its step takes " + name + " " + to_text(type) + ": train.batch rows of samples",
        "give batches of train.batch rows, or set train.batch to the rows that you have",
        ExitCode::kBadData);
  }
}

void check_is_a_number(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw UserError(
      "the loss of step " + std::to_string(step) + " is not a number",
      "training diverged: values grew until they left the range of f32",
      "lower optimizer.learning_rate, lengthen optimizer.warmup, or set optimizer.clip_norm",
      ExitCode::kDiverged);
}

void check_predicts(const ModelConfig& model) {
  if (objective_of(model) == Objective::kNextToken) return;
  throw UserError("a model of kind " + model.kind + " does not predict the next token",
                  "it predicts something else", "use a model of the next token, such as gpt",
                  ExitCode::kUsage);
}

void check_none_in_flight(int64_t in_flight, const char* what) {
  if (in_flight == 0) return;
  throw UserError(std::string(what) + " was called while a step was in flight",
                  "it belongs between steps, after the end of every step that was begun",
                  "call end_step() for every begin_step() first", ExitCode::kUsage);
}

void check_is_accumulated(int64_t batches, const char* what) {
  if (batches > 0) return;
  throw UserError(
      std::string(what) + " has no gradients", "nothing was accumulated since the last step",
      "call accumulate() with a batch first, or step() for a whole step", ExitCode::kUsage);
}

}  // namespace tessera
