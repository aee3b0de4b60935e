// Placement propagation: from a few marks to the placement of every value and op.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/marks.h"
#include "sharding/propagation/rules.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// Chooses a placement for every value and op whose placement the user left open.
///
///   ensures  marked tensors and ops keep their placements; a variable and its next value have the
///            same placement; no axis divides two factors of one op; the result does not depend on
///            the order of the marks; a second run changes nothing; partial sums pass only through
///            linear ops whose input has no other use, and are otherwise reduced by their producers
///   leaves   differences between producer and consumer: lowering reshards there
///   throws   UserError (78) from resolve_marks
///   time     O(ops x factors) per round; every round but the last gives an axis to a dim
///   meshes   each op and value gets its mesh first (assign_meshes); the axes of a dim are
///   propagated
///            to another mesh if that has axes of the same names and sizes, and else only the
///            micro-batches
ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules = catalogue_rule);
/// The same with the mesh of each op and value given.
ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules, MeshAssignment stages);
/// The same with everything on one mesh.
ShardedGraph propagate(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                       const RuleLookup& rules = catalogue_rule);

/// Propagates in a region of an op, on the op's mesh. The placements of `ends` are kept.
ShardedGraph propagate_region(const Graph& region, MeshPtr mesh, const RegionEnds& ends);

/// One line per value, in program order: "blocks.0.attn.q.weight f32[128, 4@tp, 32]".
std::string print_placements(const Graph& graph, const ShardedGraph& sharded);

}  // namespace tessera
