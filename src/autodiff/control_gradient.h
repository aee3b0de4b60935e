// Gradients through ops with regions (ops/control/control.h).
//
//     while   the loop is run once more and keeps what each trip began with, in stacks [max_trips,
//     ...]; a second loop counts down, takes
//             its values from the stacks and applies the vector-Jacobian product of the body. So
//             the forward loop keeps nothing, and the body is computed twice more.
//     if      an if of the gradients of the regions, each of which computes its region again.
#pragma once

#include <optional>
#include <vector>

#include "ops/builder.h"
#include "ops/operator.h"

namespace tessera {

/// As Operator::gradient: gradients by operand, none where not wanted or zero.
///   throws  UserError (65) when a while has no max_trips: its stacks would have no size
std::vector<std::optional<ValueId>> control_gradient(Builder& builder, const GradientCall& call);

/// Does a gradient pass through this op?
bool has_gradient(const Graph& graph, const Op& op);

/// The values that depend on `targets` through operators with gradient, by index.
std::vector<bool> values_with_gradient(const Graph& graph, const std::vector<ValueId>& targets);

}  // namespace tessera
