// Op clusters: ops of a graph whose placements are chosen together, without an exchange between
// them.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "planner/placement/search_constraints.h"
#include "planner/placement/shared_decisions.h"

namespace tessera {

constexpr int kNoLoopNest = -1;

/// By op, the number of its op cluster, and of its nest: the ops of an op cluster that one loop
/// nest computes, in which a value is read in one placement. Each number is that of the first op.
struct OpClusters {
  std::vector<int> of_op;
  std::vector<int> loop_nest_of_op;  // kNoLoopNest: it has none
};

/// Every op is an op cluster.
OpClusters single_ops(const Graph& graph);

/// Op clusters over the groups that one kernel may compute
/// (planner/placement/internal/fusion/fusion.h). A group ends an op cluster when
///
///   it is read by several groups or by none, by another role, or by the user or the next step
///   it reads several groups
///   what it makes is smaller than what it reads of the one group
///   it computes, or what it moves was computed in the op cluster, and the group that reads it
///   computes
///
/// Each other group belongs to the op cluster of the group that reads it. A group with a constraint
/// is divided into its ops, and no op cluster leads into it. So one group of an op cluster
/// computes; the others move what it reads or makes. Of layers that share decisions an op cluster
/// has the ops that are together in all of them.
///
///   source  the first three: EasyDist, clusters of ops, there over single ops
///   (github.com/alibaba/easydist)
OpClusters op_clusters_of(const Graph& graph, const SharedDecisions& shared_decisions,
                          const SearchConstraints& constraints = {});

/// The op clusters with more than one op, each as the names of its ops: "view t mm".
std::vector<std::string> to_text(const Graph& graph, const OpClusters& op_clusters);

}  // namespace tessera
