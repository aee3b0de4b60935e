// A step that another program made, compared with the reference interpreter.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/tensor/tensor.h"
#include "training/engine/engine.h"

namespace tessera {

/// What another program had. Tensors are by the names of our variables, in their types.
struct ForeignStep {
  /// The loss and the gradients after the backward, parameters after the step. What is absent is
  /// not compared.
  std::optional<double> loss = {};
  std::map<std::string, Tensor> gradients = {}, updated = {};
  /// The part of an element by which its type in the other program may round it.
  double rounding = 0;
};

/// The first tensor, in program order, that is too far from the reference.
struct ForeignDifference {
  std::string what;  // "the loss", "the gradient of 'head.weight'", "'head.weight' after the step"
  std::string variable = {};
  int64_t index = 0;  // in the whole tensor
  double theirs = 0, reference = 0, tolerance = 0;
};

struct ForeignStepReport {
  std::optional<ForeignDifference> first_difference = {};
  double max_error = 0;  // the largest error up to it, as a fraction of its tolerance
  int64_t tensors = 0;   // that were compared
};

/// Interprets the first training step of an engine, from its variables, and compares.
///
///   engine   under the serial plan
///   inputs   of the data, by name
///   ensures  tolerances are those of verify_plan (training/verify/verify.h), and `rounding` of the
///            element
///   throws   UserError (5) when values leave the range of f32
ForeignStepReport check_step(const Engine& engine, const std::map<std::string, Tensor>& inputs,
                             const ForeignStep& theirs);

}  // namespace tessera
