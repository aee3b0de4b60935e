// What it costs to turn placements of values into others, found once for each type and pair.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor/tensor.h"
#include "cluster/cost/cost_model.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/reshard/price.h"

namespace tessera {

/// The placements of values of one type, by small numbers, and the prices between them.
class ReshardPrices {
 public:
  using TypeIndex = int;
  using PlacementIndex = int;

  /// `cost` outlives it.
  ReshardPrices(const CostModel& cost, AllReduceAlgorithm all_reduce)
      : cost_(cost), options_{cost.links, all_reduce} {}

  TypeIndex type_index(const TensorType& type);
  PlacementIndex placement_index(TypeIndex type, const DistAttr& attr);
  const DistAttr& placement(TypeIndex type, PlacementIndex index) const {
    return types_[type].placements[index];
  }
  int placement_count(TypeIndex type) const {
    return static_cast<int>(types_[type].placements.size());
  }
  const TensorType& type(TypeIndex type) const { return types_[type].type; }
  /// Of the largest part of a rank.
  Bytes local_bytes(TypeIndex type, PlacementIndex index) const {
    return types_[type].bytes[index];
  }
  /// Infinity when `from` cannot become `to`: a whole value does not become a partial sum, and a
  /// window may lack what is wanted.
  const Price& price(TypeIndex type, PlacementIndex from, PlacementIndex to);

 private:
  struct Table {
    TensorType type;
    std::vector<DistAttr> placements;
    std::vector<Bytes> bytes;
    std::vector<std::vector<std::optional<Price>>> prices;  // by `from` and `to`
  };
  Price find_price(const TensorType& type, const DistAttr& from, const DistAttr& to) const;

  const CostModel& cost_;
  const ReshardOptions options_;
  std::vector<Table> types_;
};

}  // namespace tessera
