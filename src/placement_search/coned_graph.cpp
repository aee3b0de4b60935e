#include "placement_search/coned_graph.h"

namespace tessera {
namespace {

/// Cones do not depend on whether layers are tied: a choice for tied layers is one for untied ones.
Cones chosen_cones(const Graph& graph, const Ties& ties, const SearchProblemOptions& options) {
  if (!options.cones) return single_ops(graph);
  bool is_tied = false;
  for (int i = 0; i < std::ssize(ties.of_op); ++i) is_tied |= !ties.is_first(OpId{i});
  return cones_of(graph, is_tied ? ties : ties_of_like_layers(graph, options.constraints),
                  options.constraints);
}

OpRules rules_of(const Graph& graph, const RuleLookup& lookup) {
  RuleCache cache(lookup);
  OpRules rules;
  for (const Op& op : graph.ops()) rules.push_back(cache.find(op.kind, view(graph, op)));
  return rules;
}

}  // namespace

ConedGraph::ConedGraph(const Graph& graph_with_cones, const Ties& graph_ties,
                       const SearchProblemOptions& options)
    : graph(graph_with_cones),
      ties(graph_ties),
      reading(graph, ties, chosen_cones(graph, ties, options)),
      rules(rules_of(graph, options.rules)),
      chunks(chunk_dims(graph, rules)),
      moments(graph, rules, ties) {}

}  // namespace tessera
