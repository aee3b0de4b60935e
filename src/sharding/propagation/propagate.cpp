// Propagation: dims of values and factors of ops give each other axes until nothing changes.
#include "sharding/propagation/propagate.h"

#include "sharding/propagation/internal/conflicts.h"
#include "sharding/propagation/internal/op_decision.h"
#include "sharding/propagation/internal/partial_sums.h"
#include "sharding/propagation/internal/propagate_step.h"
#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {
namespace {

/// Propagates between the meshes of each value. Returns true when a dim got an axis.
bool propagate_between_all_meshes(PropagationState& state, OpenOps& open) {
  bool changed = false;
  for (int i = 0; i < std::ssize(state.placements()); ++i) {
    const ValueId value{i};
    if (!open.take(value) || !propagate_between_meshes(state.placements()[value.index])) continue;
    open.open(value);
    changed = true;
  }
  return changed;
}

/// Propagates marks between the meshes, then forward and backward over the program and between the
/// meshes, until a round changes nothing.
void propagate_to_fixed_point(PropagationState& state) {
  OpenOps open(state);
  const auto step = [&](int op) {
    return open.take(OpId{op}) && propagate_step(state, OpId{op}, open);
  };
  const int count = state.op_count();
  propagate_between_all_meshes(state, open);
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = 0; i < count; ++i) changed |= step(i);
    for (int i = count - 1; i >= 0; --i) changed |= step(i);
    changed |= propagate_between_all_meshes(state, open);
  }
}

/// Fixes the sharding of each op and notes the divisions that it could not follow.
void finalize(PropagationState& state) {
  for (int i = 0; i < state.op_count(); ++i) {
    const OpId id{i};
    state.op(id).sharding = decide_sharding(state, id);
    if (!state.op(id).mark) note_conflicts(state, id);
  }
}

ShardedGraph propagate_all(PropagationState state) {
  propagate_to_fixed_point(state);
  finalize(state);
  pass_sums_of_micro_batches(state);
  for (int i = 0; i < state.op_count(); ++i) pass_partial_sums(state, OpId{i});
  return state.take_result();
}

}  // namespace

ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules) {
  return propagate(graph, meshes, marks, rules, assign_meshes(graph, meshes, marks));
}

ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules, MeshAssignment stages) {
  ShardedGraph sharded = propagate_all({graph, meshes, marks, rules, std::move(stages), nullptr});
  for (const std::optional<ReplicaLifetime>& life : copy_lives(graph, marks))
    sharded.copies.push_back(life.value_or(ReplicaLifetime::kStep));
  return sharded;
}

ShardedGraph propagate(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                       const RuleLookup& rules) {
  return propagate(graph, one_mesh(std::move(mesh)), marks, rules);
}

ShardedGraph propagate_region(const Graph& region, MeshPtr mesh, const RegionEnds& ends) {
  const Meshes meshes = one_mesh(std::move(mesh));
  return propagate_all(
      {region, meshes, {}, catalogue_rule, assign_meshes(region, meshes, {}), &ends});
}

std::string print_placements(const Graph& graph, const ShardedGraph& sharded) {
  std::string text;
  for (int i = 0; i < std::ssize(graph.values()); ++i)
    text += graph.value({i}).name + " " + to_text(graph.type({i}), sharded.at(ValueId{i})) + "\n";
  return text;
}

}  // namespace tessera
