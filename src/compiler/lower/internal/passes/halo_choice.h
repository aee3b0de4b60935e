// Halos, exchanged or computed: an op gets what it needs beyond its own part of an operand either
// from the neighbours, or because the producer of the operand computes that part too. This pass
// chooses between the two by cost. It knows placements and prices, and no tasks.
#pragma once

#include <vector>

#include "cluster/cost/cost_model.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/propagate.h"
#include "sharding/reshard/reshard.h"

namespace tessera {

struct HaloOptions {
  HaloForm form = HaloForm::kAuto;
  CostModel cost = {};  // of both forms
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;
};

/// Divides ops by the windows that their readers need of their results, where that costs less than
/// to exchange those halos.
///
///     x [@h] -> c1 -> y1 -> c2 -> y2 [@h], two convolutions of three rows, H rows in all
///     exchanged  x [@h~H(-1:+1)]           one row from each neighbour
///                y1 [@h~H(-1:+1)]          and again
///     computed   x [@h~H(-1:+1)~H(-1:+1)]  two rows from each neighbour
///                y1 is made as [@h~H(-1:+1)]: c1 makes a row more on either side, and nothing of
///                it is sent
///
/// From the last op back, each value with a halo is the beginning of a chain: its producer is
/// widened, then the producers of the operands that are now too small, and so on, layer by layer.
/// After each layer the saving of the chain is known: exchanges that are gone, less those that have
/// become wider, less the time of the work on rows that several ranks compute (work_of in
/// kernels/bind.h, by the largest parts). The length that saves most is kept, or none. So chains go
/// through the ops between two convolutions, and the latencies of several layers become one.
///
///   requires  `sharded` is of propagate(graph, ..., marks)
///   ensures   ops are divided over the axes that they had, some by windows: every reader of such a
///             result finds all that it needs in its own rank, so nothing that was computed twice
///             is ever sent or reduced; value_reasons say which form a value with a halo has; the
///             same inputs give the same result
///   leaves    marked tensors and ops, results of the program, next values of variables, random
///             numbers, and ops with regions; partial values; dims that are cut in units, chunks or
///             micro-batches
///   time      O(ops) without halos; each chain at most kMaxLayers layers
ShardedGraph choose_halos(const Graph& graph, ShardedGraph sharded, const std::vector<Mark>& marks,
                          const HaloOptions& options = {});

}  // namespace tessera
