// Gradients through ops with regions (ir/ops/control/control.h).
//
// The gradient of a while has two loops. The first runs the forward loop again and keeps the
// initial values of each iteration in stacks [max_iterations, ...]. The second counts down, takes
// its values from the stacks and applies the vector-Jacobian product of the body. So the forward
// loop keeps nothing, and the body is computed twice more.
//
// The gradient of an if is an if of the gradients of its regions. Each computes its region again.
#pragma once

#include <optional>
#include <vector>

#include "ir/ops/builder.h"
#include "ir/ops/operator.h"

namespace tessera {

/// differentiate() of ir/autodiff/gradient.h, for the ops of a region.
using Differentiate = std::vector<ValueId> (*)(Builder& builder, ValueId loss,
                                               const std::vector<ValueId>& targets);

/// The gradients of Operator::gradient: one for each operand, nullopt where it is not wanted or
/// zero.
///   throws  UserError (65) when a while has no max_iterations: its stacks would have no size
std::vector<std::optional<ValueId>> control_gradient(Builder& builder, const GradientCall& call,
                                                     Differentiate differentiate);

}  // namespace tessera
