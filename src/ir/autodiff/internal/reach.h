// The values of a graph that a gradient reaches.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tessera {

/// Is the gradient through `op` meant to be zero? stop_gradient is the only operator without a
/// gradient that is not a mistake between a target and the loss.
bool stops_gradient(const Op& op);

/// Does a gradient pass through this op?
bool has_gradient(const Graph& graph, const Op& op);

/// By the index of a value: is it one of `values`?
std::vector<bool> mark_values(const Graph& graph, const std::vector<ValueId>& values);
/// Is one of `values` marked?
bool any_marked(const std::vector<bool>& marked, const std::vector<ValueId>& values);

/// By the index of a value: does it depend on `targets` through operators with gradient?
std::vector<bool> values_with_gradient(const Graph& graph, const std::vector<ValueId>& targets);

}  // namespace tessera
