// The memory of a step before it is compiled whole, for searches that compare placements.
#pragma once

#include <optional>

#include "base/units.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/sharded_graph.h"
#include "sharding/reshard/reshard.h"

namespace tessera {

struct StepPeakOptions {
  ReshardOptions reshard = {};
  /// Gradients that are exchanged together (Plan::bucket); nullopt: the pass "buckets" is disabled.
  std::optional<Bytes> bucket = {};
};

/// The most bytes of a rank at one moment of a step of one micro-batch: variables in their
/// placements, and what is alive in the arena (ArenaPlan::live_bound). The passes of the compiler
/// up to "buckets" make the program that is looked at.
///
///   sharded  of `graph`, on one mesh
///   throws   as partition
Bytes step_peak(const Graph& graph, const ShardedGraph& sharded,
                const StepPeakOptions& options = {});

}  // namespace tessera
