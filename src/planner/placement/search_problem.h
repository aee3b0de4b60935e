// The choice of placements as an intra-operator problem (base/solver/problem.h).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/solver/problem.h"
#include "cluster/cost/cost_model.h"
#include "ir/graph/graph.h"
#include "planner/placement/internal/cost_unit.h"
#include "planner/placement/internal/mesh_strategies.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// Costs are times of one step in a unit with which the solver adds them exactly, usages are bytes
/// of the fullest rank.
///
///   nodes    every op cluster: strategies of its ops that fit together, with the prices of their
///            kernels and of exchanges of partial sums and halos inside of it every input and every
///            variable: its canonical placement. A rank copies its part of an input every value
///            with several readers: the placement in which they find it, the canonical placement or
///            a copy of it, or two of them where the value has few. Of a variable that forward and
///            backward read also how long the copy lives: a copy that lives for one pass is made in
///            each of them and is not kept. Of a value that an op makes and that has a constraint:
///            its canonical placement
///   edges    the reshard from a producer to its reader, or to the copy and from there to each
///            reader, outside of the op cluster of the producer; from the op that makes the next
///            value of a variable to its canonical placement
///   usages   at the moments of MemoryMoments: canonical placements of variables; from op to op the
///            values that are alive, where they are made until the first of several readers finds a
///            copy; copies and workspaces. What a reader takes in another placement, and next
///            values that are not made in their canonical placement, are in peak() only
///   sharing  ops and values that share a decision are one node, which counts as often as it has
///            members
class SearchProblem {
 public:
  /// The graph, the mesh and the costs outlive it.
  SearchProblem(const Graph& graph, MeshPtr mesh, const CostModel& cost,
                const SharedDecisions& shared_decisions, const SearchProblemOptions& options = {});
  /// The problem of these strategies that hides another share of the exchanges
  /// (SearchProblemOptions): it equals the one that is made anew with this share.
  SearchProblem(std::shared_ptr<const MeshStrategies> strategies, double overlap);

  solver::Problem& problem() { return problem_; }
  const solver::Problem& problem() const { return problem_; }
  int64_t strategies() const;
  /// Strategies that max_strategies left out.
  int64_t dropped_strategies() const { return dropped_; }
  const CostUnit& unit() const { return unit_; }

  /// Two neighbours of which no strategies fit together, as text: constraints contradict each
  /// other. "" when there are none.
  std::string contradiction() const;

  /// The most bytes of an assignment at one moment, of its step as it is compiled
  /// (compiler/lower/step_peak.h). It is above or below what the usages sum to.
  ///   requires  a strategy of each node
  Bytes peak(const solver::Assignment& assignment) const;

  /// The same choices as those of an assignment of a problem of the same graph, mesh and options,
  /// in which layers share decisions. Where this problem lacks one, the first one.
  solver::Assignment separate(const SearchProblem& shared,
                              const solver::Assignment& assignment) const;

  /// The placements of an assignment.
  ///   requires  a strategy of each node
  ShardedGraph placements(const solver::Assignment& assignment) const;

 private:
  using TypeIndex = ReshardPrices::TypeIndex;
  using PlacementIndex = ReshardPrices::PlacementIndex;

  /// A node of the problem: an op cluster, or the canonical placement or a copy of a value.
  struct Node {
    int members = 0;
    std::string name = {};             // of the first op or value
    std::vector<double> seconds = {};  // by strategy; of all of them
    /// By slot, then by strategy. A copy has two, equal where readers find one placement.
    std::vector<std::vector<PlacementIndex>> operand = {};
    bool is_copy = false;
    std::vector<ReplicaLifetime> life = {};  // of a copy, by strategy
    solver::Interval kept = {};              // of a copy of a variable for a step
    bool is_deferred = false;  // is what it reads needed by the optimizer only, or prefetched?
    std::map<MemoryMoments::Span, std::vector<int64_t>> usage = {};  // by strategy; of all of them

    /// Of a copy: strategies in which readers find two of its placements.
    void add_pairs();
    /// The least of what it takes from the placements of a strategy.
    ///   from  Seconds from a placement, as double
    double smallest(int slot, int strategy, const auto& from) const {
      const double first = from(operand[slot][strategy]);
      return is_copy ? std::min(first, from(operand[1][strategy])) : first;
    }
    /// What it takes to make the placements of a strategy.
    ///   made     of one placement, from where the value is made
    ///   between  of a placement from another one
    double all(int slot, int strategy, const auto& made, const auto& between) const {
      const PlacementIndex first = operand[slot][strategy];
      if (!is_copy) return made(first);
      const PlacementIndex second = operand[1][strategy];
      const double once = std::min(made(first) + std::min(made(second), between(first, second)),
                                   made(second) + between(second, first));
      return !life.empty() && life[strategy] == ReplicaLifetime::kPass ? 2 * once : once;
    }
  };
  /// A value goes from an operand slot of one node to one of another.
  struct Connection {
    int from = 0, from_slot = 0;
    int to = 0, to_slot = 0;
    TypeIndex type = 0;
    auto operator<=>(const Connection&) const = default;
  };
  /// Where a value is found first: its producer, or its canonical placement.
  struct Source {
    int node = 0, slot = 0;
  };

  void add_op_cluster(const MeshStrategies::OpCluster& op_cluster);
  void add_canonical_nodes();
  void add_copies();
  int add_value_node(ValueId value, std::vector<PlacementIndex> placements);
  void connect_values();
  void add_results();
  void hold_memory();
  void hold(int node, const std::vector<Lifetime>& lifetimes, const std::vector<int64_t>& bytes);
  void hold_variable(const Variable& variable);
  void hold_made(ValueId value);
  void add_other_usages();
  std::vector<PlacementIndex> placements_of_readers(ValueId value) const;
  Source source_of(ValueId value) const;

  void make_problem();

  const std::shared_ptr<const MeshStrategies> strategies_;
  const Graph& graph_;
  const SharedDecisions& shared_decisions_;
  const SearchProblemOptions options_;
  const OpClusterReads& reading_;
  const MemoryMoments& moments_;
  const std::vector<TypeIndex>& types_;  // by value
  ReshardPrices prices_;
  std::vector<std::vector<OpSharding>> shardings_;         // by op and strategy of its op cluster
  std::vector<int> op_node_, canonical_node_, copy_node_;  // by op and by value; -1: none
  /// By value: the canonical placement of an input or a variable, the copy of what has a
  /// constraint; -1: none.
  std::vector<int> placed_node_;
  /// By op, in the node of its op cluster: from there the slots of its outputs, then those of its
  /// inputs. A canonical placement and a copy have one slot.
  std::vector<int> first_slot_;
  std::vector<Node> nodes_;
  /// By value that shares the decision of no earlier one: the slots of ops that read it, or one
  /// that shares its decision.
  std::vector<std::set<std::pair<int, int>>> readers_;
  struct Uses {
    int64_t count = 0;
    std::vector<Lifetime> readers = {};  // of one op each
  };
  std::map<Connection, Uses> connections_;
  int64_t dropped_ = 0;
  CostUnit unit_;
  solver::Problem problem_;
};

}  // namespace tessera
