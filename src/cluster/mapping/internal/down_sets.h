// The most sends that a set of ranks of a grid keeps inside, by compression of the set.
#pragma once

#include <optional>
#include <vector>

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// No set of `size` ranks of the grid has more sends inside, weighted by axis.
///
///   returns  nothing when it takes too long
///   time     O(ranks of the grid x size)
///
/// Let each line of one axis move its ranks of the set to its begin. The sends inside of the lines
/// do not become fewer, because the begin of a line of n ranks has as many as any part of it;
/// nor do those between two lines, which have the smaller of both in common. So some set that keeps
/// most is a down-set: with each position it has all with smaller coordinates. (Compression:
/// Harper, J. Combin. Theory 1, 1966; Bollobas and Leader, Combinatorica 11(4), 1991.)
/// Of a down-set, slices along an axis are sets of one axis less, each within the one before, and
/// slice r has a send to the slices before it for each of its ranks. A dynamic program over the
/// sizes of the slices takes the most for each slice by itself; it is exact for two axes.
std::optional<double> max_sends_of_set(const RankGrid& grid, const std::vector<double>& weight,
                                       int size);

}  // namespace tessera
