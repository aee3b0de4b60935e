// What the problem of a search counts, and what it may choose.
#pragma once

#include <algorithm>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "planner/placement/search_constraints.h"
#include "sharding/propagation/rules.h"
#include "sharding/reshard/price.h"

namespace tessera {

struct SearchProblemOptions {
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;
  /// The part of the exchanges that only the optimizer or a prefetch waits for which other work
  /// hides: of gradients, of state, and of variables to where they are read. They are combined, so
  /// they have no latency.
  double overlap = 0;
  /// false: those exchanges are neither combined nor hidden.
  bool combines = true;
  /// Gradients that are exchanged together: fewer bytes of them wait for each other until the
  /// optimizer, and more are exchanged as soon as they are made (Plan::bucket).
  Bytes bucket{25 << 20};
  /// Strategies of an op cluster at most; those with the dearest kernels are left out.
  int max_strategies = 64;
  /// Ops that one kernel may compute are one node (op_clusters.h); false: each op is.
  bool op_clusters = true;
  RuleLookup rules = catalogue_rule;
  /// Of each rank of the mesh, in its order; empty: all have the device of the costs. A kernel
  /// takes as long as on the slowest rank.
  std::vector<DeviceCost> devices = {};
  /// Repeated layers with different constraints share no decisions.
  SearchConstraints constraints = {};
};

/// What an exchange takes of a step.
///   is_deferred  only the optimizer, or a prefetch, waits for it
Seconds exchange_time(const SearchProblemOptions& options, const Price& price, bool is_deferred);

}  // namespace tessera
