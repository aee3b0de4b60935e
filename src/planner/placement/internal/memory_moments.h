// When the values of a program are alive, on a short axis of time: of layers that share decisions
// only the first and the last one have moments of their own.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/solver/problem.h"
#include "ir/graph/graph.h"
#include "kernels/kernel_set.h"
#include "planner/placement/shared_decisions.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// The ops first, ..., last of program order at which something is held; none when last < first.
struct Lifetime {
  int first = 0;
  int last = -1;
};

/// A moment is an op, with its operands and its results. Memory that ops of repeated layers hold
/// rises or falls evenly from layer to layer, so that its peak is in the first or in the last of
/// them.
class MemoryMoments {
 public:
  using Span = std::pair<solver::Moment, solver::Moment>;  // begin, end

  /// The graph outlives it.
  MemoryMoments(const Graph& graph, const OpRules& rules, const SharedDecisions& shared_decisions);

  solver::Interval all() const { return {0, begins_.back()}; }
  /// Those that share the decision of a value or an op, itself included.
  const std::vector<int>& members(ValueId first) const { return values_[first.index]; }
  const std::vector<int>& members(OpId first) const { return ops_[first.index]; }

  /// From the op that makes a value, of an input and a variable from its first reader, to its last
  /// reader; without that when it writes its result over the value. A result of the program lives
  /// to the end.
  Lifetime lifetime(ValueId value) const { return lifetimes_[value.index]; }
  /// From the first reader of a role to the last one.
  Lifetime lifetime(ValueId value, Role role) const;
  /// The first reader; the op that makes the value when there is none.
  int first_reader(ValueId value) const;

  /// How many of the lifetimes hold which moments. Those that hold none are left out.
  std::map<Span, int64_t> held(const std::vector<Lifetime>& lifetimes) const;
  /// The moments at which all of them hold.
  solver::Interval common(const std::vector<Lifetime>& lifetimes) const;

 private:
  Lifetime lifetime_of(ValueId value) const;
  /// The place of the operand over which an op writes its result, if this one is read for the last
  /// time; -1: none.
  int overwritten(OpId id, const ShardingRule& rule, const KernelSet* own) const;

  const Graph& graph_;
  std::vector<std::vector<int>> ops_, values_;  // members, by the first one
  std::vector<int> begins_;                     // moments before each op; of all ops at the end
  std::vector<Lifetime> lifetimes_;             // by value
};

}  // namespace tessera
