// Backward: the gradient of a scalar, as further ops of the same serial graph. This module knows
// graphs and operators; it knows no mesh. The sharding rules of the operators define how gradients
// are divided.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/builder.h"

namespace tessera {

/// Appends the ops that compute d loss / d target for each of `targets`.
///
///   requires  loss is a scalar f32
///   returns   one value for each target, of its type; zeros (a constant op) where the loss does
///             not depend on it
///   ensures   new ops have role backward, origin {forward op, "gradient"} and names `<forward
///             op>.grad...`. A value that is used n times gets the sum of n gradients, added in the
///             program order of its uses: ops `<value>.grad.sum`
///   throws    UserError (65) when the loss depends on a target only through an operator without
///             gradient. stop_gradient is not an error: its gradient is zero
std::vector<ValueId> differentiate(Builder& builder, ValueId loss,
                                   const std::vector<ValueId>& targets);

}  // namespace tessera
