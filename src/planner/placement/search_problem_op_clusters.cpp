// The nodes of op clusters.
#include "planner/placement/search_problem.h"

namespace tessera {

void SearchProblem::add_op_cluster(const MeshStrategies::OpCluster& op_cluster) {
  Node node;
  node.members = static_cast<int>(moments_.members(op_cluster.ops.front()).size());
  node.name = graph_.op(op_cluster.ops.front()).name;
  node.is_deferred = op_cluster.is_deferred;
  const auto composed_here = [&] {
    return strategies_->compose(op_cluster, prices_, [&](const Price& price) {
      return exchange_time(options_, price, op_cluster.is_deferred).value();
    });
  };
  const OpClusterStrategies composed = op_cluster.composed ? *op_cluster.composed : composed_here();
  dropped_ += composed.dropped;
  for (const OpClusterStrategy& strategy : composed.strategies)
    node.seconds.push_back(strategy.seconds);
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  for (size_t i = 0; i < op_cluster.ops.size(); ++i) {
    const OpId op = op_cluster.ops[i];
    const OpStrategies& all = op_cluster.of_op[i];
    op_node_[op.index] = index;
    first_slot_[op.index] = static_cast<int>(nodes_[index].operand.size());
    for (const std::vector<PlacementIndex>& operand : all.operand) {
      std::vector<PlacementIndex>& chosen = nodes_[index].operand.emplace_back();
      for (const OpClusterStrategy& strategy : composed.strategies)
        chosen.push_back(operand[strategy.of_op[i]]);
    }
    std::vector<int64_t> workspaces;
    for (const OpClusterStrategy& strategy : composed.strategies) {
      shardings_[op.index].push_back(all.shardings[strategy.of_op[i]]);
      workspaces.push_back(all.demands[strategy.of_op[i]].workspace.value());
    }
    std::vector<Lifetime> runs;
    for (int member : moments_.members(op)) runs.push_back({member, member});
    hold(index, runs, workspaces);
  }
}

}  // namespace tessera
