// How the ops of op clusters come to their operands.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "planner/placement/internal/op_cluster_strategies.h"
#include "planner/placement/internal/op_clusters.h"
#include "planner/placement/shared_decisions.h"

namespace tessera {

class OpClusterReads {
 public:
  enum class Kind {
    kAlone,  // from the canonical placement, the copy or another op cluster
    kMade,   // its op cluster makes it
    kGiven,  // an earlier op of its nest reads it from outside
  };

  /// The graph and the shared decisions outlive it.
  OpClusterReads(const Graph& graph, const SharedDecisions& shared_decisions,
                 OpClusters op_clusters);

  /// The ops of each op cluster in program order, of op clusters that share a decision those of the
  /// first one.
  const std::vector<std::vector<OpId>>& op_clusters() const { return of_op_clusters_; }

  Kind kind(OpId op, int input) const;
  /// The op of the nest that reads the operand from outside.
  ///   requires  kGiven
  OpId first_reader(OpId op, int input) const {
    return first_in_loop_nest_.at(
        {op_clusters_.loop_nest_of_op[op.index], graph_.op(op).inputs[input].index});
  }

  /// Of an op cluster and those that share its decision: where one of them reads in another way,
  /// strategies fit that, too.
  std::vector<OpClusterLink> links_of(const std::vector<OpId>& ops) const;
  /// By op of an op cluster and slot: is it read or made outside of the op cluster?
  std::vector<std::vector<bool>> boundary_of(const std::vector<OpId>& ops) const;

 private:
  const Graph& graph_;
  const SharedDecisions& shared_decisions_;
  const OpClusters op_clusters_;
  std::vector<std::vector<int>> members_;  // by the first op of those that share a decision
  std::vector<bool> is_result_;  // by value: of the program, or the next value of a variable
  std::map<std::pair<int, int>, OpId> first_in_loop_nest_;  // by nest and value
  std::vector<std::vector<OpId>> of_op_clusters_;
};

}  // namespace tessera
