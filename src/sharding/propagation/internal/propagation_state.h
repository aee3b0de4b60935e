// The state of propagation: the placement of every tensor on every mesh, and the sharding of every
// op.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/marks.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// The placement of a tensor on one mesh.
struct TensorPlacement {
  DistAttr attr;
  bool fixed = false;           // is it fixed by a mark?
  std::string reason;           // the mark, or the op and operand from which it follows
  std::vector<bool> open = {};  // by dim, of what is fixed: left to propagation all the same

  bool fixes(size_t dim) const { return fixed && !(dim < open.size() && open[dim]); }
};

struct OpState {
  OpView view;
  RulePtr shared_rule;
  OpSharding sharding;
  const MarkedOp* mark = nullptr;
  const ShardingRule& rule = *shared_rule;
};

/// The placements and shardings during propagation. Operands of an op are numbered: its inputs
/// first, then its outputs.
class PropagationState {
 public:
  /// Sets the placements that the marks, the ends of a region and the micro-batches fix. Everything
  /// else is replicated.
  ///   stages  of `graph` on `meshes`
  ///   throws  UserError (78) when the marks contradict each other
  PropagationState(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                   const RuleLookup& rules, MeshAssignment stages, const RegionEnds* ends);

  const Graph& graph() const { return graph_; }
  bool is_region() const { return is_region_; }
  /// Is the first axis of the meshes that of the micro-batches, and may it be propagated?
  bool has_time() const { return has_time_; }

  OpState& op(OpId id) { return ops_[id.index]; }
  const OpState& op(OpId id) const { return ops_[id.index]; }
  int op_count() const { return static_cast<int>(ops_.size()); }
  int stage_of(OpId id) const { return stages_.ops[id.index]; }
  const MeshPtr& mesh_of(OpId id) const { return meshes_[stage_of(id)].mesh; }

  /// A variable and its next value share the placements of the variable, when an op makes the next
  /// value.
  ValueId shared(ValueId value) const { return shared_[value.index]; }
  /// The placement that the ops of one stage see.
  ///   requires  the value is assigned to the stage, or an op of it makes or reads the value
  TensorPlacement& placement(ValueId value, int stage) {
    return placements_[shared(value).index][position_of(value, stage)];
  }
  /// The placement on the mesh that the value is assigned to.
  TensorPlacement& canonical(ValueId value) {
    return placement(value, stages_.values[shared(value).index]);
  }
  const TensorPlacement& canonical(ValueId value) const {
    return placements_[shared(value).index]
                      [position_of(value, stages_.values[shared(value).index])];
  }
  /// By value, the placements on the meshes of the stages that have it, in ascending order.
  std::vector<std::vector<TensorPlacement>>& placements() { return placements_; }

  ValueId operand(OpId id, int index) const;
  int operand_count(OpId id) const;
  bool is_input(OpId id, int index) const;
  TensorPlacement& placement_of_operand(OpId id, int index) {
    return placement(operand(id, index), stage_of(id));
  }
  const OperandFactors& factors_of_operand(OpId id, int index) const;
  /// Is the value an input or a variable?
  bool is_leaf(ValueId value) const { return graph_.value(shared(value)).producer.index < 0; }

  /// Is the value one piece on each rank, unless its own mark says otherwise? So is every input,
  /// and every variable but the optimizer state of one that a mark divides in chunks.
  bool has_one_piece(ValueId value) const {
    return is_leaf(value) && !may_have_chunks_[shared(value).index];
  }

  void add_note(ShardingNote note) { notes_.push_back(std::move(note)); }
  /// Returns the result.  requires  the state is not used afterwards
  ShardedGraph take_result();

 private:
  void find_stages_of_values();
  size_t position_of(ValueId value, int stage) const;
  void place_replicated();
  /// Finds the variables of which marks say how long copies live, and whose next value is theirs
  /// alone, and made on their own mesh.
  ///   copies  by value; may be empty
  void find_at_rest(const std::vector<std::optional<ReplicaLifetime>>& copies);
  /// nullptr for a variable that rests where ops see it.
  const DistAttr* at_rest(ValueId variable) const;
  void cast_at_rest(ValueId variable, const DistAttr& attr, ShardedGraph& sharded) const;
  void place_marked();
  std::set<std::string> axes_of_inputs() const;
  static DistAttr as_gathered(DistAttr attr, const std::set<std::string>& axes);
  void allow_chunks();
  void fix_ends(const RegionEnds& ends);
  void divide_by_micro_batches(TensorPlacement& placement);
  void add_op(const Op& op, OpId id);

  const Graph& graph_;
  const bool is_region_;
  const bool has_time_;
  Meshes meshes_;
  RuleCache rules_;
  MeshAssignment stages_;
  ResolvedMarks marks_;
  std::vector<ValueId> shared_;
  std::vector<std::vector<int>> stages_of_;  // by shared value, ascending: those that have it
  std::vector<std::vector<TensorPlacement>> placements_;  // by value and position in stages_of_
  /// Variables that rest in another placement than the one in which ops see them.
  std::map<ValueId, DistAttr> at_rest_;
  std::vector<bool> may_have_chunks_;  // by value: a variable that propagation may divide so
  std::vector<OpState> ops_;
  std::vector<ShardingNote> notes_;
  std::set<std::string> discovered_;  // notes about discovered rules, by kind and rule
};

}  // namespace tessera
