// The ops and values of repeated layers that take one decision.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "planner/placement/search_constraints.h"

namespace tessera {

/// By op and by value, the index of the first one that it shares its decision with; its own index
/// when it is the first one. Forward, backward and optimizer of a layer belong together.
struct SharedDecisions {
  std::vector<int> of_op;
  std::vector<int> of_value;

  bool is_first(OpId op) const { return of_op[op.index] == op.index; }
  bool is_first(ValueId value) const { return of_value[value.index] == value.index; }
};

/// Nothing shares a decision.
SharedDecisions no_shared_decisions(const Graph& graph);

/// SharedDecisions the ops at one position of the layers of a group (ir/graph/repeated_layers.h)
/// whose lists of ops, with those of the backward and of the optimizer, are equal in kind,
/// attributes without random keys, role and types; with them their results, and the variables of
/// equal type that they read first at one position. A layer that has other ops than the rest, such
/// as the first one, shares no decision, and so is one with other constraints.
///
///   ensures  deterministic; names do not matter
///   time     O(n log n) for n ops and values
SharedDecisions shared_decisions_of(const Graph& graph, const SearchConstraints& constraints = {});

}  // namespace tessera
