// Checks a graph that was parsed from a text.
#pragma once

#include "ir/graph/graph.h"

namespace tessera {

/// Checks every op, in regions too, by its operator, as if Builder had appended it.
///   throws  UserError (65) for an unknown operator, operands or attributes that do not fit, other
///           result types than the operator gives, and a variable whose initial value is of
///           another type
void check_ops(const Graph& graph);

}  // namespace tessera
