#include "planner/placement/internal/clustered_graph.h"

namespace tessera {
namespace {

/// Op clusters do not depend on whether layers share decisions: a choice for such layers is one for
/// separate ones.
OpClusters chosen_op_clusters(const Graph& graph, const SharedDecisions& shared_decisions,
                              const SearchProblemOptions& options) {
  if (!options.op_clusters) return single_ops(graph);
  bool is_shared = false;
  for (int i = 0; i < std::ssize(shared_decisions.of_op); ++i)
    is_shared |= !shared_decisions.is_first(OpId{i});
  return op_clusters_of(
      graph, is_shared ? shared_decisions : shared_decisions_of(graph, options.constraints),
      options.constraints);
}

OpRules rules_of(const Graph& graph, const RuleLookup& lookup) {
  RuleCache cache(lookup);
  OpRules rules;
  for (const Op& op : graph.ops()) rules.push_back(cache.find(op.kind, view(graph, op)));
  return rules;
}

}  // namespace

ClusteredGraph::ClusteredGraph(const Graph& graph_with_op_clusters,
                               const SharedDecisions& graph_shared_decisions,
                               const SearchProblemOptions& options)
    : graph(graph_with_op_clusters),
      shared_decisions(graph_shared_decisions),
      reading(graph, shared_decisions, chosen_op_clusters(graph, shared_decisions, options)),
      rules(rules_of(graph, options.rules)),
      chunks(chunk_dims(graph, rules)),
      moments(graph, rules, shared_decisions) {}

}  // namespace tessera
