// Dynamic scaling of the loss (LossScale in ir/autodiff/internal/optimizer_config.h), as ops of the
// serial graph.
#pragma once

#include <vector>

#include "ir/autodiff/internal/optimizer_config.h"
#include "ir/autodiff/internal/trained_parameter.h"
#include "ir/ops/builder.h"

namespace tessera {

/// The variables of the scaling.
struct LossScaling {
  LossScale settings;
  ValueId scale;  // of this step
  ValueId steps;  // since the scale was changed
};

/// Adds the variables, and multiplies `loss` by the scale.
LossScaling scale_loss(Builder& builder, ValueId& loss, const LossScale& settings);

/// Divides the gradients by the scale. It is a power of two, so this is exact.
void unscale(Builder& builder, const LossScaling& scaling,
             std::vector<TrainedParameter>& parameters);

/// bool[]: is no gradient of any rank and stage infinite or no number? Adds the outputs
/// "loss_scale" and "skipped".
///   norm  of all gradients: it is finite when all of them are
ValueId gradients_are_finite(Builder& builder, const LossScaling& scaling, ValueId norm);

/// Halves the scale after an overflow, and doubles it after enough steps without.
void set_next_scale(Builder& builder, const LossScaling& scaling, ValueId is_finite);

}  // namespace tessera
