// The strategies of all cones of a graph on one mesh: what its search problems have in common,
// whatever share of the exchanges they hide.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cost/cost_model.h"
#include "placement_search/cone_strategies.h"
#include "placement_search/coned_graph.h"
#include "placement_search/kernel_price.h"
#include "placement_search/reshard_prices.h"
#include "placement_search/search_options.h"

namespace tessera {

/// Does not change, so several threads may read it.
class MeshStrategies {
 public:
  /// A cone, and the strategies of each of its ops.
  struct Cone {
    std::vector<OpId> ops;
    bool is_deferred = false;  // does only the optimizer wait for its exchanges?
    std::vector<OpStrategies> of_op;
    /// Those that fit together, where no exchange inside of the cone is deferred.
    std::optional<ConeStrategies> composed = {};
  };

  /// The costs outlive it. options.hidden_share does not count.
  ///   requires  `coned` is of the same options
  MeshStrategies(std::shared_ptr<const ConedGraph> coned, MeshPtr mesh, const CostModel& cost,
                 const SearchProblemOptions& options);

  const ConedGraph& coned() const { return *coned_; }
  const MeshPtr& mesh() const { return mesh_; }
  const CostModel& cost() const { return cost_; }
  const SearchProblemOptions& options() const { return options_; }
  /// By value.
  const std::vector<ReshardPrices::TypeIndex>& types() const { return types_; }
  /// With the placements of all strategies.
  const ReshardPrices& prices() const { return prices_; }
  /// In program order.
  const std::vector<Cone>& cones() const { return cones_; }

  /// The strategies of the ops of a cone that fit together.
  ///   prices   those of this object, or a copy of them
  ///   seconds  of an exchange inside of the cone
  ConeStrategies compose(const Cone& cone, ReshardPrices& prices,
                         const std::function<double(const Price&)>& seconds) const;

 private:
  void add_cone(const std::vector<OpId>& ops, const std::vector<bool>& may_be_partial,
                const std::vector<PricedRank>& ranks);

  const std::shared_ptr<const ConedGraph> coned_;
  const MeshPtr mesh_;
  const CostModel& cost_;
  const SearchProblemOptions options_;
  ReshardPrices prices_;
  std::vector<ReshardPrices::TypeIndex> types_;
  std::vector<Cone> cones_;
};

}  // namespace tessera
