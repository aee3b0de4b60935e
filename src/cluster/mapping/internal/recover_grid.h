// Finds the grid in traffic that is given pair by pair.
#pragma once

#include <optional>

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// The grid whose traffic is exactly that of the graph: lines of each axis are rings, chains or all
/// pairs, and no two axes send as much over an edge. Where the graph falls apart into equal grids,
/// an axis without traffic comes first, which numbers them.
///
///   returns  the axes, and the ranks by position; nothing when there is no such grid, or when no
///            two ranks have traffic
///   time     O(edges x axes)
///
/// The edges of one axis are those of one weight. An edge changes only the coordinate of its axis,
/// so ranks with one coordinate are what is connected without the edges of that axis (the Cartesian
/// product of graphs: Sabidussi, Math. Z. 72, 1959).
std::optional<RankGrid> recover_grid(const RankGraph& graph);

}  // namespace tessera
