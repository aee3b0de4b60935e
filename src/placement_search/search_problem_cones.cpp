// The nodes of cones.
#include <algorithm>
#include <numeric>

#include "ops/operator_set.h"
#include "placement_search/search_problem.h"
#include "placement_search/strategies.h"

namespace tessera {
namespace {

std::vector<OpSharding> shardings_of(const Graph& graph, OpId id, const ShardingRule& rule,
                                     const MeshPtr& mesh, const std::vector<bool>& may_be,
                                     const ChunkDims& chunks,
                                     const SearchConstraints& constraints) {
  if (const auto fixed = constraints.ops.find(id.index); fixed != constraints.ops.end())
    return {fixed->second};
  std::vector<bool> partial;
  for (ValueId input : graph.op(id).inputs) partial.push_back(may_be[input.index]);
  return strategies_of(rule, mesh, partial, chunks.of_op[id.index]);
}

/// The first strategy divides nothing.
void keep_fastest(OpStrategies& all, int limit) {
  std::vector<int> order(all.shardings.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin() + 1, order.end(), [&](int a, int b) {
    return all.demands[a].price.estimate < all.demands[b].price.estimate;
  });
  order.resize(limit);
  const OpStrategies before = std::move(all);
  all = {
      {}, {}, std::vector(before.operand.size(), std::vector<int>()), before.types, before.outputs};
  for (int s : order) {
    all.shardings.push_back(before.shardings[s]);
    all.demands.push_back(before.demands[s]);
    for (size_t slot = 0; slot < before.operand.size(); ++slot)
      all.operand[slot].push_back(before.operand[slot][s]);
  }
}

/// The op with all its strategies.
OpStrategies strategies_of_op(const Graph& graph, OpId id, const ShardingRule& rule,
                              std::vector<OpSharding> shardings,
                              const std::vector<PricedRank>& ranks, ReshardPrices& prices) {
  const Op& op = graph.op(id);
  const OpView op_view = view(graph, op);
  OpStrategies all;
  all.shardings = std::move(shardings);
  all.outputs = static_cast<int>(op.outputs.size());
  all.operand.resize(op.inputs.size() + op.outputs.size());
  for (ValueId output : op.outputs) all.types.push_back(prices.type_index(graph.type(output)));
  for (ValueId input : op.inputs) all.types.push_back(prices.type_index(graph.type(input)));
  const std::shared_ptr<const KernelSet> own = own_kernels(graph);
  for (const OpSharding& sharding : all.shardings) {
    all.demands.push_back(kernel_demand(op_view, rule, sharding, ranks, own.get()));
    for (int k = 0; k < std::ssize(all.operand); ++k)
      all.operand[k].push_back(prices.placement_index(
          all.types[k], k < all.outputs ? output_attr(op_view, rule, sharding, k)
                                        : input_attr(op_view, rule, sharding, k - all.outputs)));
  }
  return all;
}

ConeStrategies strategies_of_single(OpStrategies& op, int limit) {
  ConeStrategies single;
  if (std::ssize(op.shardings) > limit) {
    single.dropped = std::ssize(op.shardings) - limit;
    keep_fastest(op, limit);
  }
  for (int s = 0; s < std::ssize(op.shardings); ++s)
    single.strategies.push_back({{s}, op.demands[s].price.estimate.value()});
  return single;
}

}  // namespace

void SearchProblem::add_cones() {
  for (const std::vector<OpId>& ops : reading_.cones()) add_cone(ops);
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    op_node_[i] = op_node_[ties_.of_op[i]];
    first_slot_[i] = first_slot_[ties_.of_op[i]];
  }
}

void SearchProblem::add_cone(const std::vector<OpId>& ops) {
  std::vector<OpStrategies> all;
  for (OpId op : ops)
    all.push_back(strategies_of_op(
        graph_, op, rules_[op.index],
        shardings_of(graph_, op, rules_[op.index], mesh_, partial_, chunks_, options_.constraints),
        ranks_, prices_));
  Node node;
  node.members = static_cast<int>(moments_->members(ops.front()).size());
  node.name = graph_.op(ops.front()).name;
  node.is_deferred = graph_.op(ops.front()).role == Role::kOptimizer;
  const ConeStrategies composed =
      ops.size() == 1 ? strategies_of_single(all.front(), options_.max_strategies)
                      : compose_cone(
                            all, reading_.links_of(ops), reading_.boundary_of(ops), prices_,
                            [&](const Price& price) {
                              return exchange_time(options_, price, node.is_deferred).value();
                            },
                            options_.max_strategies);
  dropped_ += composed.dropped;
  for (const ConeStrategy& strategy : composed.strategies) node.seconds.push_back(strategy.seconds);
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  for (size_t i = 0; i < ops.size(); ++i) {
    op_node_[ops[i].index] = index;
    first_slot_[ops[i].index] = static_cast<int>(nodes_[index].operand.size());
    for (const std::vector<PlacementIndex>& operand : all[i].operand) {
      std::vector<PlacementIndex>& chosen = nodes_[index].operand.emplace_back();
      for (const ConeStrategy& strategy : composed.strategies)
        chosen.push_back(operand[strategy.of_op[i]]);
    }
    std::vector<int64_t> workspaces;
    for (const ConeStrategy& strategy : composed.strategies) {
      shardings_[ops[i].index].push_back(all[i].shardings[strategy.of_op[i]]);
      workspaces.push_back(all[i].demands[strategy.of_op[i]].workspace.value());
    }
    std::vector<Lifetime> runs;
    for (int member : moments_->members(ops[i])) runs.push_back({member, member});
    hold(index, runs, workspaces);
  }
}

}  // namespace tessera
