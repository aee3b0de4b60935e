// Exact reductions: they remove nodes, strategies, edges and moments and keep at least one of the
// cheapest assignments.
#pragma once

#include <functional>

#include "base/solver/internal/network.h"

namespace tessera::solver {

// Each function takes one step if it can and returns whether it did. It adds to `touched` the nodes
// that are to be tried next.

/// Removes strategies for which a neighbour has only forbidden pairs left.
bool drop_unsupported(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Removes a strategy when another one uses no more memory at any moment and costs no more for any
/// choice of the neighbours.
///   source  Goldstein, Biophysical Journal 66, 1994 (dead-end elimination), with memory in
///           addition to the costs
bool drop_dominated(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Joins edges between the same two nodes, and turns edges whose cost is a sum of one term for each
/// end into costs of the ends.
bool simplify_edges(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Removes a node with one strategy, whose cost and memory are known.
bool settle_single(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Removes a node that holds nothing and has at most two neighbours. Its least cost becomes a cost
/// of theirs.
bool eliminate(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Joins a neighbour that has exactly one strategy left for each strategy of the node with the
/// node, including its edges and its memory.
bool absorb_determined(Network& network, int32_t node, std::vector<int32_t>& touched);

/// Applies all of these and compress_moments until none makes a step or `stop` returns true. The
/// network is equivalent at any time.
void reduce(Network& network, const std::function<bool()>& stop = [] { return false; });

}  // namespace tessera::solver
