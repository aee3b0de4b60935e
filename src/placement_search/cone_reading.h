// How the ops of cones come to their operands.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "placement_search/cone_strategies.h"
#include "placement_search/cones.h"
#include "placement_search/ties.h"

namespace tessera {

class ConeReading {
 public:
  enum class Kind {
    kAlone,  // from the home, the copy or another cone
    kMade,   // its cone makes it
    kGiven,  // an earlier op of its nest reads it from outside
  };

  /// The graph and the ties outlive it.
  ConeReading(const Graph& graph, const Ties& ties, Cones cones);

  /// The ops of each cone in program order, of tied cones those of the first one.
  const std::vector<std::vector<OpId>>& cones() const { return of_cones_; }

  Kind of(OpId op, int input) const;
  /// The op of the nest that reads the operand from outside.
  ///   requires  kGiven
  OpId first_reader(OpId op, int input) const {
    return first_in_nest_.at({cones_.nest_of_op[op.index], graph_.op(op).inputs[input].index});
  }

  /// Of a cone and those tied to it: where one of them reads in another way, strategies fit that,
  /// too.
  std::vector<ConeLink> links_of(const std::vector<OpId>& ops) const;
  /// By op of a cone and slot: is it read or made outside of the cone?
  std::vector<std::vector<bool>> boundary_of(const std::vector<OpId>& ops) const;

 private:
  const Graph& graph_;
  const Ties& ties_;
  const Cones cones_;
  std::vector<std::vector<int>> members_;  // by the first op of those that are tied
  std::vector<bool> is_result_;  // by value: of the program, or the next value of a variable
  std::map<std::pair<int, int>, OpId> first_in_nest_;  // by nest and value
  std::vector<std::vector<OpId>> of_cones_;
};

}  // namespace tessera
