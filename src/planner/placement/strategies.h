// The strategies of an op: the shardings that its rule allows on a mesh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/sharding_rule.h"
#include "sharding/layout/mesh.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// By value: may an op make it a partial sum? A reduction that is divided makes one, and ops that
/// are linear in partial sums pass them on.
///
///   partial  those that are for another reason; empty: none
std::vector<bool> may_be_partial(const Graph& graph, const OpRules& rules,
                                 std::vector<bool> partial = {});

/// All shardings of an op: each axis of the mesh divides one factor, belongs to one linear set, or
/// does neither. Several axes on one factor are in the order of the mesh.
///
///   partial  by input: may it be a partial sum? Only then an axis belongs to a linear set
///   chunks   by factor: the numbers of chunks in which it may be divided, beside one; empty: none
///   ensures  the first one is the replicated one; no factor has fewer elements than parts
///   leaves   windows (halos that are computed), and other orders of axes on one factor
std::vector<OpSharding> strategies_of(const ShardingRule& rule, const MeshPtr& mesh,
                                      const std::vector<bool>& partial,
                                      const std::vector<std::set<int64_t>>& chunks = {});

}  // namespace tessera
