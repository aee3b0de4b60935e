#include "planner/placement/shared_decisions.h"

#include <map>
#include <numeric>
#include <string>

#include "ir/graph/classes.h"
#include "ir/graph/repeated_layers.h"

namespace tessera {
namespace {

std::string signature_of(const Graph& graph, const SearchConstraints& constraints, OpId id) {
  const Op& op = graph.op(id);
  std::string text = op.kind + "|" + std::string(to_text(op.role));
  for (const auto& [name, value] : op.attributes)
    if (name != kRandomKey) text += "|" + name + "=" + to_text(value);
  for (ValueId input : op.inputs) text += "|" + to_text(graph.type(input));
  for (ValueId output : op.outputs) text += ">" + to_text(graph.type(output));
  return text + text_of(constraints, graph, id) + "\n";
}

/// The ops of each layer, with those derived from them, in program order.
using LayerOps = std::map<std::pair<int, int>, std::vector<int>>;

LayerOps ops_of_layers(const Graph& graph, const RepeatedLayers& layers) {
  LayerOps ops;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (const LayerPlace place = layers.at(OpId{i}); !place.is_none())
      ops[{place.group.value(), place.layer.value()}].push_back(i);
  return ops;
}

class Tying {
 public:
  Tying(const Graph& graph, const SearchConstraints& constraints)
      : graph_(graph), constraints_(constraints), shared_decisions_(no_shared_decisions(graph)) {}

  SharedDecisions run() {
    std::map<std::pair<int, std::string>, const std::vector<int>*> first;
    const RepeatedLayers layers = find_repeated_layers(graph_);
    const LayerOps all = ops_of_layers(graph_, layers);
    for (const auto& [layer, ops] : all) {
      std::string signature;
      for (int op : ops) signature += signature_of(graph_, constraints_, OpId{op});
      const auto [found, is_new] = first.try_emplace({layer.first, signature}, &ops);
      if (!is_new) tie_layers(*found->second, ops);
    }
    tie_to_first(shared_decisions_.of_op);
    tie_to_first(shared_decisions_.of_value);
    return std::move(shared_decisions_);
  }

 private:
  /// The backward of the first layer comes after that of the others.
  static void tie_to_first(std::vector<int>& shared_decisions) {
    std::vector<int> first(shared_decisions.size(), -1);
    for (int i = 0; i < std::ssize(shared_decisions); ++i)
      if (first[shared_decisions[i]] < 0) first[shared_decisions[i]] = i;
    for (int& tie : shared_decisions) tie = first[tie];
  }

  void tie_layers(const std::vector<int>& to, const std::vector<int>& from) {
    for (size_t i = 0; i < from.size(); ++i) {
      const Op& a = graph_.ops()[to[i]];
      const Op& b = graph_.ops()[from[i]];
      shared_decisions_.of_op[from[i]] = to[i];
      for (size_t k = 0; k < b.outputs.size(); ++k)
        shared_decisions_.of_value[b.outputs[k].index] = a.outputs[k].index;
      for (size_t k = 0; k < b.inputs.size(); ++k) tie_variables(a.inputs[k], b.inputs[k]);
    }
  }

  /// A variable that several layers share stays on its own.
  void tie_variables(ValueId to, ValueId from) {
    if (to == from || !graph_.variable_of(to) || !graph_.variable_of(from)) return;
    int& tie = shared_decisions_.of_value[from.index];
    if (tie == from.index && shared_decisions_.of_value[to.index] == to.index) tie = to.index;
  }

  const Graph& graph_;
  const SearchConstraints& constraints_;
  SharedDecisions shared_decisions_;
};

}  // namespace

SharedDecisions no_shared_decisions(const Graph& graph) {
  SharedDecisions shared_decisions;
  shared_decisions.of_op.resize(graph.ops().size());
  shared_decisions.of_value.resize(graph.values().size());
  std::iota(shared_decisions.of_op.begin(), shared_decisions.of_op.end(), 0);
  std::iota(shared_decisions.of_value.begin(), shared_decisions.of_value.end(), 0);
  return shared_decisions;
}

SharedDecisions shared_decisions_of(const Graph& graph, const SearchConstraints& constraints) {
  return Tying(graph, constraints).run();
}

}  // namespace tessera
