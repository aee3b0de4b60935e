// The strategies of all op clusters of a graph on one mesh: what its search problems have in
// common, whatever share of the exchanges they hide.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "planner/placement/internal/clustered_graph.h"
#include "planner/placement/internal/op_cluster_strategies.h"
#include "planner/placement/internal/search_options.h"
#include "planner/placement/reshard_prices.h"
#include "sharding/propagation/kernel_price.h"

namespace tessera {

/// Does not change, so several threads may read it.
class MeshStrategies {
 public:
  /// An op cluster, and the strategies of each of its ops.
  struct OpCluster {
    std::vector<OpId> ops;
    bool is_deferred = false;  // does only the optimizer wait for its exchanges?
    std::vector<OpStrategies> of_op;
    /// Those that fit together, where no exchange inside of the op cluster is deferred.
    std::optional<OpClusterStrategies> composed = {};
  };

  /// The costs outlive it. options.overlap does not count.
  ///   requires  `clustered` is of the same options
  MeshStrategies(std::shared_ptr<const ClusteredGraph> clustered, MeshPtr mesh,
                 const CostModel& cost, const SearchProblemOptions& options);

  const ClusteredGraph& clustered() const { return *clustered_; }
  const MeshPtr& mesh() const { return mesh_; }
  const CostModel& cost() const { return cost_; }
  const SearchProblemOptions& options() const { return options_; }
  /// By value.
  const std::vector<ReshardPrices::TypeIndex>& types() const { return types_; }
  /// With the placements of all strategies.
  const ReshardPrices& prices() const { return prices_; }
  /// In program order.
  const std::vector<OpCluster>& op_clusters() const { return op_clusters_; }

  /// The strategies of the ops of an op cluster that fit together.
  ///   prices   those of this object, or a copy of them
  ///   seconds  of an exchange inside of the op cluster
  OpClusterStrategies compose(const OpCluster& op_cluster, ReshardPrices& prices,
                              const std::function<double(const Price&)>& seconds) const;

 private:
  void add_op_cluster(const std::vector<OpId>& ops, const std::vector<bool>& may_be_partial,
                      const std::vector<PricedRank>& ranks);

  const std::shared_ptr<const ClusteredGraph> clustered_;
  const MeshPtr mesh_;
  const CostModel& cost_;
  const SearchProblemOptions options_;
  ReshardPrices prices_;
  std::vector<ReshardPrices::TypeIndex> types_;
  std::vector<OpCluster> op_clusters_;
};

}  // namespace tessera
