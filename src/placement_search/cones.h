// Cones: ops of a graph whose placements are chosen together, without an exchange between them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "placement_search/search_constraints.h"
#include "placement_search/ties.h"

namespace tessera {

constexpr int kNoNest = -1;

/// By op, the number of its cone, and of its nest: the ops of a cone that one loop nest computes,
/// in which a value is read in one placement. Each number is that of the first op.
struct Cones {
  std::vector<int> of_op;
  std::vector<int> nest_of_op;  // kNoNest: it has none
};

/// Every op is a cone.
Cones single_ops(const Graph& graph);

/// Cones over the groups that one kernel may compute (fusion/fusion.h). A group ends a cone when
///
///   it is read by several groups or by none, by another role, or by the user or the next step
///   it reads several groups
///   what it makes is smaller than what it reads of the one group
///   it computes, or what it moves was computed in the cone, and the group that reads it computes
///
/// Each other group belongs to the cone of the group that reads it. A group with a constraint is
/// divided into its ops, and no cone leads into it. So one group of a cone computes; the others
/// move what it reads or makes. Of tied layers a cone has the ops that are together in all of them.
///
///   source  the first three: EasyDist, cone clusters, there over single ops
///   (github.com/alibaba/easydist)
Cones cones_of(const Graph& graph, const Ties& ties, const SearchConstraints& constraints = {});

/// The cones with more than one op, each as the names of its ops: "view t mm".
std::vector<std::string> to_text(const Graph& graph, const Cones& cones);

}  // namespace tessera
