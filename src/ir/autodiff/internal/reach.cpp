#include "ir/autodiff/internal/reach.h"

#include <algorithm>

#include "ir/ops/operator.h"

namespace tessera {

bool stops_gradient(const Op& op) {
  return op.kind == "stop_gradient";
}

bool has_gradient(const Graph& graph, const Op& op) {
  return !op.regions.empty() || find_operator(graph, op.kind).gradient != nullptr;
}

std::vector<bool> mark_values(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<bool> marked(graph.values().size(), false);
  for (ValueId value : values) marked[value.index] = true;
  return marked;
}

bool any_marked(const std::vector<bool>& marked, const std::vector<ValueId>& values) {
  return std::ranges::any_of(values, [&](ValueId value) { return marked[value.index]; });
}

/// Every op comes after the ops that produce its operands, so one pass in program order suffices.
std::vector<bool> values_with_gradient(const Graph& graph, const std::vector<ValueId>& targets) {
  std::vector<bool> marked = mark_values(graph, targets);
  for (const Op& op : graph.ops()) {
    if (!any_marked(marked, op.inputs) || stops_gradient(op) || !has_gradient(graph, op)) continue;
    for (ValueId output : op.outputs)
      if (is_float(graph.type(output).dtype)) marked[output.index] = true;
  }
  return marked;
}

}  // namespace tessera
