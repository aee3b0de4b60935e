#include "planner/presets/internal/gradients.h"

#include <algorithm>
#include <functional>

#include "ir/ops/cast_as.h"

namespace tessera {
namespace {

/// A cast of a gradient to 16 bits or back (with_gradients_in).
bool casts_parts(const Op& op) {
  return op.attributes.has(kCastsParts);
}

/// By value: is it computed from rows of an input? Micro-batches make parts of it; of what is not,
/// such as the gradient of a penalty on a parameter, there is one value a step.
std::vector<bool> made_of_rows(const Graph& graph) {
  std::vector<bool> made(graph.values().size(), false);
  for (const ValueId input : graph.inputs()) made[input.index] = graph.type(input).shape.size() > 0;
  for (const Op& op : graph.ops())
    if (std::ranges::any_of(op.inputs, [&](ValueId input) { return made[input.index]; }))
      for (const ValueId output : op.outputs) made[output.index] = true;
  return made;
}

}  // namespace

Gradients gradients_of(const Graph& graph, const std::vector<int>& stages) {
  const auto maker = [&](ValueId value) { return graph.value(value).producer; };
  const auto stage_of = [&](ValueId value) { return stages[maker(value).index]; };
  const std::vector<bool> has_rows = made_of_rows(graph);
  Gradients gradients;
  const auto is_of_backward = [&](ValueId value) {
    return maker(value).index >= 0 && graph.op(maker(value)).role == Role::kBackward;
  };
  const std::function<void(ValueId, std::vector<ValueId>&)> add = [&](ValueId value,
                                                                      std::vector<ValueId>& list) {
    if (!has_rows[value.index]) return;
    ValueId sum = value;
    while (is_of_backward(sum) && casts_parts(graph.op(maker(sum))))
      sum = graph.op(maker(sum)).inputs.front();
    if (!is_of_backward(sum)) return list.push_back(value);
    std::vector<ValueId> terms = graph.op(maker(sum)).inputs;
    std::erase_if(terms, [&](ValueId term) {
      return !is_of_backward(term) || !(graph.type(term) == graph.type(sum));
    });
    const bool is_put_together = std::ranges::any_of(terms, [&](ValueId term) {
      return stage_of(term) != stage_of(sum) || !has_rows[term.index];
    });
    if (!is_put_together) return list.push_back(value);
    for (const ValueId term : terms) add(term, list);
  };
  for (const Op& op : graph.ops()) {
    const auto parameter = graph.find_value(op.origin.source);
    if (op.role != Role::kOptimizer || !parameter || gradients.contains(op.origin.source)) continue;
    for (const ValueId input : op.inputs)
      if (is_of_backward(input) && graph.type(input).shape == graph.type(*parameter).shape)
        add(input, gradients[op.origin.source]);
  }
  return gradients;
}

}  // namespace tessera
