#include "compiler/rewrite/recompute.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/name_pattern.h"
#include "compiler/rewrite/internal/min_cut.h"
#include "ir/graph/repeated_layers.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

bool is_forward(const Graph& graph, OpId op) {
  return op.index >= 0 && graph.op(op).role == Role::kForward;
}

bool compares_for_equality(const Op& op) {
  if (op.kind != "compare") return false;
  const std::string& relation = op.attributes.text("relation");
  return relation == "eq" || relation == "ne";
}

std::vector<bool> inside_of_layers(const Graph& graph) {
  const RepeatedLayers layers = find_repeated_layers(graph);
  std::vector<bool> inside(graph.values().size(), false);
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    const Value& value = graph.value({i});
    if (!is_forward(graph, value.producer) || layers.at(value.producer).is_none()) continue;
    inside[i] = std::ranges::none_of(value.users, [&](OpId user) {
      return is_forward(graph, user) && layers.at(user) != layers.at(value.producer);
    });
  }
  return inside;
}

std::vector<bool> named(const Graph& graph, const std::vector<std::string>& patterns) {
  std::vector<bool> is_named(graph.values().size(), false);
  for (const std::string& text : patterns) {
    const NamePattern pattern(text);
    for (const Op& op : graph.ops())
      if (op.role == Role::kForward && pattern.matches(op.name))
        for (ValueId output : op.outputs) is_named[output.index] = true;
  }
  return is_named;
}

bool is_cheap(const Graph& graph, const Op& op) {
  if (!op.regions.empty()) return false;
  double elements = 0;
  for (const std::vector<ValueId>* values : {&op.inputs, &op.outputs})
    for (ValueId value : *values)
      elements += static_cast<double>(element_count(graph.type(value).shape));
  const OpView shape = view(graph, op);
  return shape.definition->work(shape).flops.value() <= kCheapFlopsPerElement * elements;
}

/// Values flow from what cannot be computed again to what the backward reads; what is kept cuts
/// them off. A value is two nodes, with its bytes as the capacity between them.
std::vector<bool> cheap_values(const Graph& graph) {
  const int count = static_cast<int>(graph.values().size()), source = 2 * count;
  FlowNetwork network(2 * count + 2);
  const std::vector<bool> is_once = values_computed_once(graph);
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kForward) continue;
    const bool again = is_cheap(graph, op) && std::ranges::none_of(op.outputs, [&](ValueId output) {
                         return is_once[output.index];
                       });
    for (ValueId output : op.outputs) {
      const int into = 2 * output.index;
      network.add_edge(into, into + 1, byte_size(graph.type(output)).value());
      if (!again) network.add_edge(source, into, FlowNetwork::kUnlimited);
      for (ValueId input : op.inputs)
        if (again && is_forward(graph, graph.value(input).producer))
          network.add_edge(2 * input.index + 1, into, FlowNetwork::kUnlimited);
      const bool is_read = std::ranges::any_of(graph.value(output).users, [&](OpId user) {
        return graph.op(user).role == Role::kBackward;
      });
      if (is_read) network.add_edge(into + 1, source + 1, FlowNetwork::kUnlimited);
    }
  }
  const std::vector<bool> reached = network.sink_side(source, source + 1);
  std::vector<bool> again(graph.values().size(), false);
  for (int i = 0; i < count; ++i)
    again[i] = is_forward(graph, graph.value({i}).producer) && reached[2 * i];
  return again;
}

std::vector<bool> chosen_values(const Graph& graph, const Recompute& choice) {
  switch (choice.kind) {
    case Recompute::Kind::kNone: return {};
    case Recompute::Kind::kSelective: return cheap_values(graph);
    case Recompute::Kind::kFull: return inside_of_layers(graph);
    case Recompute::Kind::kPatterns: return named(graph, choice.patterns);
    case Recompute::Kind::kAuto: throw InternalError("recompute \"auto\" is decided before");
  }
  throw InternalError("unknown kind of recompute");
}

}  // namespace

std::vector<bool> values_computed_once(const Graph& graph) {
  std::vector<bool> is_once(graph.values().size(), false);
  for (const auto& [name, value] : graph.outputs()) is_once[value.index] = true;
  for (const Variable& variable : graph.variables())
    if (variable.next) is_once[variable.next->index] = true;
  for (const Op& op : graph.ops())
    if (op.role == Role::kBackward && compares_for_equality(op))
      for (ValueId input : op.inputs)
        if (is_float(graph.type(input).dtype)) is_once[input.index] = true;
  for (const Variable& variable : graph.variables())
    for (const OpId user : graph.value(variable.value).users)
      if (const Op& op = graph.op(user); op.kind == "cast")
        is_once[op.outputs.front().index] = true;
  return is_once;
}

std::vector<bool> recomputed_values(const Graph& graph, const Recompute& choice) {
  std::vector<bool> values = chosen_values(graph, choice);
  if (values.empty()) return values;
  const std::vector<bool> is_once = values_computed_once(graph);
  for (size_t i = 0; i < values.size(); ++i)
    if (is_once[i]) values[i] = false;
  return values;
}

void recompute_in_backward(GraphDraft& draft) {
  draft.compute_again();
}

}  // namespace tessera
