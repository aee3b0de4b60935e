// The nodes of cones.
#include "placement_search/search_problem.h"

namespace tessera {

void SearchProblem::add_cone(const MeshStrategies::Cone& cone) {
  Node node;
  node.members = static_cast<int>(moments_.members(cone.ops.front()).size());
  node.name = graph_.op(cone.ops.front()).name;
  node.is_deferred = cone.is_deferred;
  const auto composed_here = [&] {
    return strategies_->compose(cone, prices_, [&](const Price& price) {
      return exchange_time(options_, price, cone.is_deferred).value();
    });
  };
  const ConeStrategies composed = cone.composed ? *cone.composed : composed_here();
  dropped_ += composed.dropped;
  for (const ConeStrategy& strategy : composed.strategies) node.seconds.push_back(strategy.seconds);
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  for (size_t i = 0; i < cone.ops.size(); ++i) {
    const OpId op = cone.ops[i];
    const OpStrategies& all = cone.of_op[i];
    op_node_[op.index] = index;
    first_slot_[op.index] = static_cast<int>(nodes_[index].operand.size());
    for (const std::vector<PlacementIndex>& operand : all.operand) {
      std::vector<PlacementIndex>& chosen = nodes_[index].operand.emplace_back();
      for (const ConeStrategy& strategy : composed.strategies)
        chosen.push_back(operand[strategy.of_op[i]]);
    }
    std::vector<int64_t> workspaces;
    for (const ConeStrategy& strategy : composed.strategies) {
      shardings_[op.index].push_back(all.shardings[strategy.of_op[i]]);
      workspaces.push_back(all.demands[strategy.of_op[i]].workspace.value());
    }
    std::vector<Lifetime> runs;
    for (int member : moments_.members(op)) runs.push_back({member, member});
    hold(index, runs, workspaces);
    workspaces_[op.index] = std::move(workspaces);
  }
}

}  // namespace tessera
