// Axes of a mesh that span several levels of links, as axes of their own: of 16 ranks on `dp`,
// eight in each of two machines, `dp_ib=2` and `dp_nvlink=8`. So a collective over `dp` may be made
// of some over each level, and what enters a machine enters once. Marks and propagation know `dp`
// alone; what comes after them knows the levels.
#pragma once

#include "cluster/cost/links.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// The same ranks, with the axes of LinkCosts::levels in place of those that span them. An axis
/// whose parts have weights, or whose size is not the product of the levels, stays one axis; and so
/// do all axes of a mesh that would have more than kMaxMeshAxes.
Meshes on_levels(const Meshes& meshes, const LinkCosts& links);

/// The same placements: what an axis divides, its levels divide, the outermost first.
///   ensures  of a dim that the parts of an axis divide evenly each rank holds what it held; of
///            others as the levels divide it one after the other
ShardedGraph on_levels(ShardedGraph sharded, const LinkCosts& links);

}  // namespace tessera
