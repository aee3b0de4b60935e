// Exact reductions: fewer nodes, strategies, edges and moments, and among the cheapest assignments
// at least one stays.
#pragma once

#include <functional>

#include "solver/network.h"

namespace tessera::solver {

// Each takes one step where it can and says whether it did. `touched` gains the nodes whose turn it
// is then.

/// Strategies for which a neighbour has nothing left but forbidden pairs go.
bool drop_unsupported(Network& network, int32_t node, std::vector<int32_t>& touched);
/// A strategy goes when another one holds no more at any moment and, whatever the neighbours take,
/// costs no more. Source: Goldstein, Biophysical Journal 66, 1994 (dead-end elimination), with
/// memory beside the costs.
bool drop_dominated(Network& network, int32_t node, std::vector<int32_t>& touched);
/// Edges between the same two nodes become one; edges whose cost is a sum of one term for each end
/// become costs of the ends.
bool simplify_edges(Network& network, int32_t node, std::vector<int32_t>& touched);
/// A node with one strategy leaves; what it costs and holds is known.
bool settle_single(Network& network, int32_t node, std::vector<int32_t>& touched);
/// A node that holds nothing and has at most two neighbours leaves; its least cost becomes a cost
/// of theirs.
bool eliminate(Network& network, int32_t node, std::vector<int32_t>& touched);
/// A neighbour that has exactly one strategy left for each strategy of the node joins it, with its
/// edges and what it holds.
bool absorb_determined(Network& network, int32_t node, std::vector<int32_t>& touched);

/// All of these and compress_moments, until none finds anything or `stop` says so. The network is
/// equivalent at any time.
void reduce(Network& network, const std::function<bool()>& stop = [] { return false; });

}  // namespace tessera::solver
