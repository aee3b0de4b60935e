#include "training/engine/internal/steps/step_checks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"

namespace tessera {

namespace {

/// The first field that the batch lacks or has with another type.
const Field* find_mismatch(const std::vector<Field>& wanted, const Batch& batch) {
  for (const Field& field : wanted)
    if (const Tensor* given = batch.find(field.name); !given || given->type() != field.type)
      return &field;
  return nullptr;
}

std::string given_text(const Batch& batch, const std::string& name) {
  const Tensor* given = batch.find(name);
  return given ? "of " + to_text(given->type()) : "without " + name;
}

}  // namespace

void check_rows(const std::vector<Field>& wanted, const Batch& batch) {
  if (const Field* mismatch = find_mismatch(wanted, batch))
    throw UserError(
        "a batch " + given_text(batch, mismatch->name) + " does not fit this training",
        "its step takes " + mismatch->name + " " + to_text(mismatch->type) +
            ": train.batch rows of samples",
        "give batches of train.batch rows, or set train.batch to the rows that you have",
        ExitCode::kBadData);
}

void check_prediction(const std::vector<Field>& wanted, const Batch& batch, int64_t rows) {
  if (const Field* mismatch = find_mismatch(wanted, batch))
    throw UserError(
        "a batch " + given_text(batch, mismatch->name) + " does not fit this prediction",
        "with " + std::to_string(rows) + " rows it takes " + mismatch->name + " " +
            to_text(mismatch->type),
        "give a batch of such tensors, all with the same rows", ExitCode::kBadData);
}

void check_variable(const Graph& training, const std::string& name, const TensorType& type) {
  std::vector<std::string> names;
  for (const Variable& variable : training.variables()) {
    names.push_back(training.value(variable.value).name);
    const TensorType& wanted = training.type(variable.value);
    if (names.back() == name && wanted != type)
      throw UserError("variable '" + name + "' is given as " + to_text(type),
                      "the network has it as " + to_text(wanted),
                      "give a tensor of that type, or build the network with these sizes",
                      ExitCode::kBadData);
  }
  if (std::ranges::find(names, name) != names.end()) return;
  const std::string close = nearest(name, names);
  throw UserError(
      "the network has no variable '" + name + "'",
      "it has " + counted(std::ssize(names), "variable") +
          " in training, parameters and optimizer state, none of this name",
      close.empty() ? "use the names of Engine::variables()" : "did you mean '" + close + "'?",
      ExitCode::kBadData);
}

void check_is_a_number(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw UserError(
      "the loss of step " + std::to_string(step) + " is not a number",
      "training diverged: values grew until they left the range of f32",
      "lower optimizer.learning_rate, lengthen optimizer.warmup, or set optimizer.clip_norm",
      ExitCode::kDiverged);
}

void check_accumulates(const Precision& precision) {
  if (!precision.scales_loss()) return;
  throw UserError("a step with train.precision = \"f16\" cannot be made in parts",
                  "its gradients are scaled, and whether a step is skipped is decided once for all "
                  "of them",
                  "use step(), or train.precision = \"bf16\", which needs no scale",
                  ExitCode::kUsage);
}

void check_predicts(const Network& network) {
  if (network.language) return;
  throw UserError(network.name + " does not predict the next token", "it predicts something else",
                  "use a model of the next token, such as gpt", ExitCode::kUsage);
}

void check_none_in_flight(int64_t in_flight, const char* what) {
  if (in_flight == 0) return;
  throw UserError(std::string(what) + " was called while a step was in flight",
                  "it belongs between steps, after the end of every step that was begun",
                  "call end_step() for every begin_step() first", ExitCode::kUsage);
}

void check_none_accumulated(int64_t batches, const char* what) {
  if (batches == 0) return;
  throw UserError(std::string(what) + " was called with gradients that were not applied",
                  "they belong to a step that has begun, and are no part of the variables",
                  "call apply_gradients() first, or set_position() to drop them", ExitCode::kUsage);
}

void check_is_accumulated(int64_t batches, const char* what) {
  if (batches > 0) return;
  throw UserError(
      std::string(what) + " has no gradients", "nothing was accumulated since the last step",
      "call accumulate() with a batch first, or step() for a whole step", ExitCode::kUsage);
}

}  // namespace tessera
