// The cheapest strategies of some nodes at once, with all others fixed. The result is exact; one
// node is eliminated after the other.
#pragma once

#include <vector>

#include "base/solver/internal/core.h"

namespace tessera::solver {

/// An order in which to eliminate nodes, and the tables for it. It is made once for some nodes and
/// solved for many costs of them.
///   source  Bertele and Brioschi, Nonserial Dynamic Programming, 1972
class Elimination {
 public:
  /// Takes as many of the given nodes as tables of at most `largest_table` entries allow.
  ///   requires  the nodes differ
  ///   weights   by position in `nodes`, or empty: of two nodes with as many neighbours, the one
  ///             with the larger weight is left out
  Elimination(const Core& core, std::vector<int32_t> nodes, int64_t largest_table,
              const std::vector<double>& weights = {});

  /// The nodes that take part, ascending as given. The others are fixed; the caller includes them
  /// in the costs.
  const std::vector<int32_t>& nodes() const { return nodes_; }
  /// The number of entries of all tables, which is the work of one solve.
  int64_t work() const { return work_; }
  /// The cheapest strategies for own costs `costs[place[i]...]` of nodes()[i] and the core's costs
  /// between the nodes.
  ///   requires  place[i] + strategies(nodes()[i]) <= costs.size()
  ///   ensures   strategies[i] is that of nodes()[i]; ties go to the lower number
  ///   returns   the least cost
  double solve(const std::vector<double>& costs, const std::vector<size_t>& place,
               std::vector<int32_t>& strategies);

 private:
  struct Factor {
    const double* edge = nullptr;  // rows of the core's table; nullptr: see `step`
    int32_t step = -1;             // the earlier step that made the table
    std::vector<int64_t> strides;  // by index in the scope of the step that uses it
  };
  struct Step {
    int32_t node = 0;            // index in nodes_
    std::vector<int32_t> scope;  // indices in nodes_; the last one is eliminated first
    std::vector<Factor> factors;
    std::vector<double> table;
    std::vector<uint16_t> choice;
  };

  void collect_factors(const Core& core);
  void run(Step& step, const double* own);

  std::vector<int32_t> nodes_;
  std::vector<int32_t> sizes_;
  std::vector<Step> steps_;
  int64_t work_ = 0;
  std::vector<double> sum_;
};

}  // namespace tessera::solver
