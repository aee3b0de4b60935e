#include "presets/gradients.h"

#include <algorithm>
#include <functional>

#include "ops/cast_as.h"

namespace tessera {
namespace {

/// A cast of a gradient to 16 bits or back (with_gradients_in).
bool casts_parts(const Op& op) {
  return op.attributes.has(kCastsParts);
}

}  // namespace

Gradients gradients_of(const Graph& graph, const std::vector<int>& stages) {
  const auto maker = [&](ValueId value) { return graph.value(value).producer; };
  const auto stage_of = [&](ValueId value) { return stages[maker(value).index]; };
  Gradients gradients;
  const std::function<void(ValueId, std::vector<ValueId>&)> add = [&](ValueId value,
                                                                      std::vector<ValueId>& list) {
    ValueId sum = value;
    while (casts_parts(graph.op(maker(sum)))) sum = graph.op(maker(sum)).inputs.front();
    const std::vector<ValueId>& terms = graph.op(maker(sum)).inputs;
    const bool joins_stages = std::ranges::any_of(terms, [&](ValueId term) {
      return maker(term).index >= 0 && graph.op(maker(term)).role == Role::kBackward &&
             graph.type(term) == graph.type(sum) && stage_of(term) != stage_of(sum);
    });
    if (!joins_stages) return list.push_back(value);
    for (const ValueId term : terms) add(term, list);
  };
  for (const Op& op : graph.ops()) {
    const auto parameter = graph.find_value(op.origin.source);
    if (op.role != Role::kOptimizer || !parameter || gradients.contains(op.origin.source)) continue;
    for (const ValueId input : op.inputs)
      if (maker(input).index >= 0 && graph.op(maker(input)).role == Role::kBackward &&
          graph.type(input).shape == graph.type(*parameter).shape)
        add(input, gradients[op.origin.source]);
  }
  return gradients;
}

}  // namespace tessera
