// The loops of ops, and of sets of ops that one kernel may compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "planner/placement/internal/fusion/fusion_kind.h"

namespace tessera {

/// The loops of one op, which are factors of its sharding rule.
struct OpLoops {
  enum class Kind { kElementwise, kRowReduction, kProduct, kOther };
  Kind kind = Kind::kOther;
  int count = 0;  // of factors
  /// By operand, the factor of each dim; nullopt where a dim is not just one factor.
  std::vector<std::optional<std::vector<int>>> inputs, outputs;
  /// Of a row reduction those of its operand, otherwise those of the result, in order.
  std::vector<int> space;
  int reduced = 0;       // trailing factors of the space
  bool expands = false;  // no operand has all the loops
  bool samples = false;  // random numbers

  bool has(Kind other) const { return kind == other; }
};

OpLoops loops_of(const Graph& graph, const Op& op);

/// What a set of ops is as one kernel.
struct FusedLoops {
  FusionKind kind = FusionKind::kAlone;
  std::string reason;
};

/// nullopt when one kernel cannot compute the ops (fusion_groups says when); paths that leave the
/// set are not looked at.
///   loops  of all ops of the graph
///   ops    in program order
std::optional<FusedLoops> fused_loops(const Graph& graph, const std::vector<OpLoops>& loops,
                                      const std::vector<int>& ops);

}  // namespace tessera
