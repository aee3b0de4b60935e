// The ops of a graph that one kernel may compute. This module knows graphs and sharding rules; it
// knows no mesh, no kernel and no price, and it changes nothing.
#pragma once

#include <string>
#include <vector>

#include "base/index.h"
#include "ir/graph/graph.h"
#include "planner/placement/internal/fusion/fusion_kind.h"

namespace tessera {

using FusionGroupIndex = Index<struct FusionGroupTag>;  // in FusionGroups::groups

struct FusionGroup {
  std::vector<OpId> ops;  // in program order
  FusionKind kind = FusionKind::kAlone;
  std::string reason;  // a sentence for the user
};

struct FusionGroups {
  IndexedVector<FusionGroupIndex, FusionGroup> groups;  // in the order of their first ops
  std::vector<FusionGroupIndex> of_op;

  FusionGroupIndex at(OpId op) const { return of_op[op.index]; }
};

/// Divides the ops of a graph into groups that one kernel each may compute.
///
///   element-wise  every result has all factors of the op, in one order, and each is parallel: an
///                 element depends on the elements at its own indices. A broadcast is element-wise
///   row           the trailing dims of one operand are reduced, and all reductions of a group
///                 reduce the same dims of the same loops. What reads their results in the group
///                 runs over the rows or over all elements of them. Where nothing but one row is
///                 left, only what runs over the results may follow
///   product       reduces a factor that two operands have. At most one is in a group, without row
///                 reductions. Ops over an operand are read in the group only and do not sample
///   expansion     a source, or a broadcast of an input, a variable or a source, joins when all
///                 its readers of its role are in the group
///   alone         ops with regions, operators of the user, those whose rule is discovered, and all
///                 that is none of the above: moves, windows, gathers, attention
///   ensures       each op is in one group; groups have one role; the graph of groups has no cycle,
///                 so no path leaves a group and comes back; deterministic; names do not matter
///   time          O(ops + operands) merges, each over the ops of two groups (at most 128) and the
///                 ops between them
FusionGroups fusion_groups(const Graph& graph);

/// "rows: a b c", with the names of the ops.
std::string to_text(const Graph& graph, const FusionGroup& group);

}  // namespace tessera
