// Classes of identical ops and values of a graph, by local structure: one decision may be taken for
// a class, and it is priced or printed once.
#pragma once

#include <string_view>
#include <vector>

#include "base/index.h"
#include "ir/graph/graph.h"

namespace tessera {

using OpClass = Index<struct OpClassTag>;        // in Classes::ops
using ValueClass = Index<struct ValueClassTag>;  // in Classes::values

/// The attribute of a random op that says which numbers it samples. They change with the step and,
/// in a loop, with the iteration.
inline constexpr std::string_view kRandomKey = "key";

/// The distance of the neighbours that count, unless the caller gives another. The ops of a
/// transformer layer are at most this far from one of the ops that tell q, k and v apart.
inline constexpr int kClassDepth = 3;

struct Classes {
  std::vector<OpClass> of_op;        // by op
  std::vector<ValueClass> of_value;  // by value
  /// The members of each class in program order; classes in the order of their first members.
  IndexedVector<OpClass, std::vector<OpId>> ops;
  IndexedVector<ValueClass, std::vector<ValueId>> values;
  /// The distance to which neighbours were compared.
  int depth = 0;
  /// Neighbours at a greater distance would divide no class further.
  bool is_stable = false;

  OpClass at(OpId op) const { return of_op[op.index]; }
  ValueClass at(ValueId value) const { return of_value[value.index]; }
};

/// Divides ops and values into classes.
///
///   ops        are alike at depth 0 when kind, role, derivation, attributes, regions, and the
///              types of operands and results are equal. Names and random keys do not count
///   values     are alike at depth 0 when both are inputs, variables (trained alike, derived alike)
///              or results, and type and being an output are equal. Initial values do not count
///   depth      at depth d + 1, ops are alike when they were at d and so were their operands and
///              results in order, and what they are derived from; values, when their producers (as
///              the same result) and their users (as the same operand, in any order) were, and a
///              variable and its next value. Stops earlier when nothing changes any more
///   ensures    deterministic. Every comparison is of the structure itself: a collision of hashes
///              does no harm
///   time       O(depth x (ops + operands)), and the sorting of the users of each value
///   source     colour refinement (1-dimensional Weisfeiler and Lehman, 1968)
Classes classes_of(const Graph& graph, int depth = kClassDepth);

}  // namespace tessera
