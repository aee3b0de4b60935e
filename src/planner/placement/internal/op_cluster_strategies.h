// The strategies of an op cluster, composed of those of its ops.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/placement/reshard_prices.h"
#include "sharding/propagation/kernel_price.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {

/// The strategies of one op.
struct OpStrategies {
  std::vector<OpSharding> shardings;
  std::vector<KernelDemand> demands;
  /// By slot (the outputs, then the inputs), then by strategy.
  std::vector<std::vector<ReshardPrices::PlacementIndex>> operand;
  std::vector<ReshardPrices::TypeIndex> types = {};  // by slot
  int outputs = 0;
};

/// Two slots of ops of an op cluster that hold one value. Ops are numbers in the op cluster.
struct OpClusterLink {
  enum class Kind { kReads, kAgrees };
  int from = 0, from_slot = 0;
  int to = 0, to_slot = 0;
  /// kReads: `to` reads what `from` makes. kAgrees: both read it, in one placement.
  Kind kind = Kind::kReads;
  auto operator<=>(const OpClusterLink&) const = default;
};

/// One strategy of each op.
struct OpClusterStrategy {
  std::vector<int> of_op;
  double seconds = 0;  // of kernels and of exchanges inside of the op cluster
  int64_t bytes = 0;   // of all results
};

struct OpClusterStrategies {
  std::vector<OpClusterStrategy> strategies;
  int64_t dropped = 0;  // beyond the limit
};

/// All choices of strategies that fit together: a reader takes a value as it is made, but that a
/// partial sum may be exchanged for what the reader takes, where an op reduces or adds several
/// partial sums, and a part for its window (a halo). Of
/// those with equal placements at the boundary, the ones that another one is as good as in time and
/// in bytes are left out; above `limit` those that take longest.
///
///   links     the ops are connected by them
///   boundary  by op and slot: is it read or made outside of the op cluster?
///   seconds   of an exchange
///   ensures   there is one, when each op may run undivided
OpClusterStrategies compose_op_cluster(const std::vector<OpStrategies>& ops,
                                       const std::vector<OpClusterLink>& links,
                                       const std::vector<std::vector<bool>>& boundary,
                                       ReshardPrices& prices,
                                       const std::function<double(const Price&)>& seconds,
                                       int limit);

}  // namespace tessera
