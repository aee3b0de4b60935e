// The cheapest strategies of some nodes at once, all others as they are: exact, by eliminating one
// node after the other.
#pragma once

#include <vector>

#include "solver/core.h"

namespace tessera::solver {

/// An order in which to eliminate nodes, and the tables that this takes. Made once for some nodes,
/// solved for many costs of theirs. Source: Bertele and Brioschi, Nonserial Dynamic Programming,
/// 1972.
class Elimination {
 public:
  /// Takes as many of the given nodes as tables of at most `largest_table` entries allow.
  ///   requires  the nodes differ
  ///   weights  by place in `nodes`, or empty: of two nodes with as many neighbours the one with
  ///   the larger weight is left out
  Elimination(const Core& core, std::vector<int32_t> nodes, int64_t largest_table,
              const std::vector<double>& weights = {});

  /// The nodes that take part, ascending as given; those left out are fixed for whoever makes the
  /// costs.
  const std::vector<int32_t>& nodes() const { return nodes_; }
  /// Entries of all tables: the work of one solve.
  int64_t work() const { return work_; }
  /// Cheapest strategies for own costs `costs[place[i]...]` of nodes()[i] and the core's costs
  /// between the nodes.
  ///   requires  place[i] + strategies(nodes()[i]) <= costs.size()
  ///   ensures   strategies[i] is that of nodes()[i]; ties go to the lower number
  ///   returns   the least cost
  double solve(const std::vector<double>& costs, const std::vector<size_t>& place,
               std::vector<int32_t>& strategies);

 private:
  struct Factor {
    const double* edge = nullptr;  // rows of the core's table, or
    int32_t step = -1;             // the table that an earlier step left
    std::vector<int64_t> strides;  // by index in the scope of the step that takes it
  };
  struct Step {
    int32_t node = 0;            // index in nodes_
    std::vector<int32_t> scope;  // indices in nodes_, the one to be eliminated first at the end
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
