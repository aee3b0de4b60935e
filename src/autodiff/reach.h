// Which values of a graph a gradient reaches.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tessera {

/// True when the gradient through `op` is meant to be zero. stop_gradient is the only operator
/// without a gradient that is not a mistake between a target and the loss.
bool stops_gradient(const Op& op);

/// True when a gradient passes through this op.
bool has_gradient(const Graph& graph, const Op& op);

/// `values`, by the index of a value.
std::vector<bool> mark_values(const Graph& graph, const std::vector<ValueId>& values);
/// True when one of `values` is marked.
bool any_marked(const std::vector<bool>& marked, const std::vector<ValueId>& values);

/// The values that depend on `targets` through operators with gradient, by the index of a value.
std::vector<bool> values_with_gradient(const Graph& graph, const std::vector<ValueId>& targets);

}  // namespace tessera
