#include "planner/placement/internal/mesh_strategies.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "ir/ops/operator_set.h"
#include "planner/placement/strategies.h"

namespace tessera {
namespace {

/// By value: may an op, or its canonical placement, make it a partial sum?
std::vector<bool> partial_values(const Graph& graph, const OpRules& rules,
                                 const SearchConstraints& constraints) {
  std::vector<bool> marked(graph.values().size(), false);
  for (const auto& [value, canonical_placements] : constraints.canonical_placements)
    marked[value] = std::ranges::any_of(canonical_placements,
                                        [](const DistAttr& a) { return !a.partial.empty(); });
  return may_be_partial(graph, rules, std::move(marked));
}

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

OpClusterStrategies strategies_of_single(OpStrategies& op, int limit) {
  OpClusterStrategies single;
  if (std::ssize(op.shardings) > limit) {
    single.dropped = std::ssize(op.shardings) - limit;
    keep_fastest(op, limit);
  }
  for (int s = 0; s < std::ssize(op.shardings); ++s)
    single.strategies.push_back({{s}, op.demands[s].price.estimate.value()});
  return single;
}

}  // namespace

MeshStrategies::MeshStrategies(std::shared_ptr<const ClusteredGraph> clustered, MeshPtr mesh,
                               const CostModel& cost, const SearchProblemOptions& options)
    : clustered_(std::move(clustered)),
      mesh_(std::move(mesh)),
      cost_(cost),
      options_(options),
      prices_(cost, options.all_reduce) {
  const Graph& graph = clustered_->graph;
  for (const Value& value : graph.values()) types_.push_back(prices_.type_index(value.type));
  const std::vector<bool> may_be = partial_values(graph, clustered_->rules, options_.constraints);
  const std::vector<PricedRank> ranks = priced_ranks(*mesh_, cost.device, options.devices);
  for (const std::vector<OpId>& ops : clustered_->reading.op_clusters())
    add_op_cluster(ops, may_be, ranks);
}

void MeshStrategies::add_op_cluster(const std::vector<OpId>& ops,
                                    const std::vector<bool>& may_be_partial,
                                    const std::vector<PricedRank>& ranks) {
  const Graph& graph = clustered_->graph;
  OpCluster op_cluster{ops, graph.op(ops.front()).role == Role::kOptimizer, {}};
  for (OpId op : ops) {
    const ShardingRule& rule = clustered_->rules[op.index];
    op_cluster.of_op.push_back(
        strategies_of_op(graph, op, rule,
                         shardings_of(graph, op, rule, mesh_, may_be_partial, clustered_->chunks,
                                      options_.constraints),
                         ranks, prices_));
  }
  if (ops.size() == 1) {
    op_cluster.composed = strategies_of_single(op_cluster.of_op.front(), options_.max_strategies);
  } else {
    bool is_exchanged = false;
    OpClusterStrategies composed = compose(op_cluster, prices_, [&](const Price& price) {
      is_exchanged = true;
      return exchange_time(options_, price, false).value();
    });
    if (!op_cluster.is_deferred || !is_exchanged) op_cluster.composed = std::move(composed);
  }
  op_clusters_.push_back(std::move(op_cluster));
}

OpClusterStrategies MeshStrategies::compose(
    const OpCluster& op_cluster, ReshardPrices& prices,
    const std::function<double(const Price&)>& seconds) const {
  const OpClusterReads& reading = clustered_->reading;
  return compose_op_cluster(op_cluster.of_op, reading.links_of(op_cluster.ops),
                            reading.boundary_of(op_cluster.ops), prices, seconds,
                            options_.max_strategies);
}

}  // namespace tessera
