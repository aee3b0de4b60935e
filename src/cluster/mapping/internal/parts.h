// How many sends of one axis stay inside of groups, when groups cut its lines into parts.
#pragma once

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// An upper bound of the sends of one axis that stay inside of groups, when `ranks` ranks, in lines
/// of the axis, fill groups of `size` ranks each. It is exact for chains.
///
///   requires  the size of the axis and `size` divide `ranks`
///
/// Rings and chains: a part of k ranks keeps k - 1 edges, so the fewest parts keep most. Lines and
/// groups that share ranks are connected. What is connected fills whole lines and whole groups, so
/// it has a multiple of the least common multiple of both sizes, and at least lines + groups - 1
/// parts. All pairs: the lines are cut into parts, and the groups put together from them; the sizes
/// of parts must match. Its linear relaxation is bounded by multipliers for each size of a part
/// (Gilmore and Gomory, Operations Research 9(6), 1961), which are improved by subgradient steps.
double max_sends_inside(const GridAxis& axis, int64_t ranks, int64_t size);

}  // namespace tessera
