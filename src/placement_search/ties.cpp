#include "placement_search/ties.h"

#include <map>
#include <numeric>
#include <string>

#include "graph/classes.h"
#include "graph/like_layers.h"

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

LayerOps ops_of_layers(const Graph& graph, const LikeLayers& layers) {
  LayerOps ops;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (const LayerPlace place = layers.of(OpId{i}); !place.is_none())
      ops[{place.group.value(), place.layer.value()}].push_back(i);
  return ops;
}

class Tying {
 public:
  Tying(const Graph& graph, const SearchConstraints& constraints)
      : graph_(graph), constraints_(constraints), ties_(no_ties(graph)) {}

  Ties run() {
    std::map<std::pair<int, std::string>, const std::vector<int>*> first;
    const LikeLayers layers = like_layers_of(graph_);
    const LayerOps all = ops_of_layers(graph_, layers);
    for (const auto& [layer, ops] : all) {
      std::string signature;
      for (int op : ops) signature += signature_of(graph_, constraints_, OpId{op});
      const auto [found, is_new] = first.try_emplace({layer.first, signature}, &ops);
      if (!is_new) tie_layers(*found->second, ops);
    }
    tie_to_first(ties_.of_op);
    tie_to_first(ties_.of_value);
    return std::move(ties_);
  }

 private:
  /// The backward of the first layer comes after that of the others.
  static void tie_to_first(std::vector<int>& ties) {
    std::vector<int> first(ties.size(), -1);
    for (int i = 0; i < std::ssize(ties); ++i)
      if (first[ties[i]] < 0) first[ties[i]] = i;
    for (int& tie : ties) tie = first[tie];
  }

  void tie_layers(const std::vector<int>& to, const std::vector<int>& from) {
    for (size_t i = 0; i < from.size(); ++i) {
      const Op& a = graph_.ops()[to[i]];
      const Op& b = graph_.ops()[from[i]];
      ties_.of_op[from[i]] = to[i];
      for (size_t k = 0; k < b.outputs.size(); ++k)
        ties_.of_value[b.outputs[k].index] = a.outputs[k].index;
      for (size_t k = 0; k < b.inputs.size(); ++k) tie_variables(a.inputs[k], b.inputs[k]);
    }
  }

  /// A variable that several layers share stays on its own.
  void tie_variables(ValueId to, ValueId from) {
    if (to == from || !graph_.variable_of(to) || !graph_.variable_of(from)) return;
    int& tie = ties_.of_value[from.index];
    if (tie == from.index && ties_.of_value[to.index] == to.index) tie = to.index;
  }

  const Graph& graph_;
  const SearchConstraints& constraints_;
  Ties ties_;
};

}  // namespace

Ties no_ties(const Graph& graph) {
  Ties ties;
  ties.of_op.resize(graph.ops().size());
  ties.of_value.resize(graph.values().size());
  std::iota(ties.of_op.begin(), ties.of_op.end(), 0);
  std::iota(ties.of_value.begin(), ties.of_value.end(), 0);
  return ties;
}

Ties ties_of_like_layers(const Graph& graph, const SearchConstraints& constraints) {
  return Tying(graph, constraints).run();
}

}  // namespace tessera
