#include "sharding/propagation/internal/op_decision.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using Candidates = std::vector<ShardingCandidate>;

/// The candidates of all operands, by factor and priority.
std::vector<Candidates> candidates_by_factor(PropagationState& state, OpId id) {
  const ShardingRule& rule = state.op(id).rule;
  std::vector<Candidates> lists(rule.factors.size());
  for (int i = 0; i < state.operand_count(id); ++i) {
    const OperandFactors& dims = state.factors_of_operand(id, i);
    const ValueId value = state.operand(id, i);
    const TensorPlacement& placed = state.placement_of_operand(id, i);
    for (size_t d = 0; d < dims.size(); ++d) {
      const DimSharding& held = placed.attr.dims[d];
      if (held.axes.empty()) continue;
      const DimFactor& dim = choice_for(dims[d], rule, held);
      if (dim.factor < 0) continue;
      lists[dim.factor].push_back({held.axes, chunks_of_factor(dim, rule, held),
                                   state.has_one_piece(value) && !placed.fixes(d), i,
                                   state.is_input(id, i), placed.fixes(d),
                                   byte_size(state.graph().type(value)).value()});
    }
  }
  for (Candidates& list : lists)
    if (list.size() > 1) std::stable_sort(list.begin(), list.end(), has_priority);
  return lists;
}

// ---- marks and micro-batches ----
// A mark places ranks. Tensors that micro-batches divide stay divided by them in addition to the
// mark.

bool any_starts_with_time(const PropagationState& state, const Candidates& list) {
  return std::any_of(list.begin(), list.end(), [&](const ShardingCandidate& candidate) {
    return starts_with_time(state, candidate.axes);
  });
}

/// Does the first candidate come from a marked tensor, without the micro-batches that another
/// operand has?
bool lacks_time(const PropagationState& state, OpId id, int factor, const Candidates& list) {
  const ShardingCandidate& first = list.front();
  return first.fixed && !starts_with_time(state, first.axes) && any_starts_with_time(state, list) &&
         !state.is_leaf(state.operand(id, first.operand)) &&
         may_divide_by_micro_batches(state.op(id).rule, factor, state.mesh_of(id)->shape()[0]);
}

/// The sharding of a marked op, with the micro-batches that an operand has.
OpSharding with_time(PropagationState& state, OpId id, OpSharding sharding) {
  const ShardingRule& rule = state.op(id).rule;
  const std::vector<Candidates> lists = candidates_by_factor(state, id);
  for (int factor = 0; factor < std::ssize(rule.factors) && !sharding.uses(0); ++factor) {
    Axes& axes = sharding.factor_axes[factor];
    const bool is_plain = sharding.windows_of(factor).empty() && sharding.chunks_of(factor) == 1;
    if (!is_plain || !any_starts_with_time(state, lists[factor]) ||
        !may_divide_by_micro_batches(rule, factor, sharding.mesh->shape()[0]) ||
        (axes.empty() && !sharding.may_divide(rule, factor)))
      continue;
    axes.insert(axes.begin(), 0);
  }
  return sharding;
}

/// The first candidate, with the chunks and the further axes of candidates that agree with it.
ShardingCandidate combined(Candidates list) {
  ShardingCandidate& first = list.front();
  // An operand that cannot have chunks does not prevent them for the others.
  const auto chunked =
      std::find_if(list.begin(), list.end(),
                   [](const ShardingCandidate& candidate) { return candidate.chunks > 1; });
  if (first.in_one_piece && chunked != list.end() && chunked->axes == first.axes)
    first.chunks = chunked->chunks;
  for (const ShardingCandidate& candidate : list)
    if (is_prefix(first.axes, candidate.axes) && candidate.chunks == first.chunks)
      first.axes = candidate.axes;
  return std::move(first);
}

/// The winning candidate of each factor, by priority.
std::vector<std::pair<ShardingCandidate, int>> winners(PropagationState& state, OpId id) {
  const ShardingRule& rule = state.op(id).rule;
  std::vector<Candidates> lists = candidates_by_factor(state, id);
  std::vector<std::pair<ShardingCandidate, int>> found;
  for (int factor = 0; factor < std::ssize(rule.factors); ++factor) {
    if (rule.factors[factor].kind == FactorKind::kWhole) continue;
    Candidates& list = lists[factor];
    if (list.empty()) continue;
    if (lacks_time(state, id, factor, list)) list.front().axes.insert(list.front().axes.begin(), 0);
    found.emplace_back(combined(std::move(list)), factor);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return has_priority(a.first, b.first); });
  return found;
}

}  // namespace

bool starts_with_time(const PropagationState& state, const Axes& axes) {
  return !axes.empty() && axes.front() == 0 && state.has_time();
}

OpSharding decide_sharding(PropagationState& state, OpId id) {
  const OpState& op = state.op(id);
  if (op.mark) return with_time(state, id, op.mark->sharding);
  OpSharding sharding = OpSharding::replicated(state.mesh_of(id), op.rule);
  for (const auto& [candidate, factor] : winners(state, id)) {
    if (!sharding.may_divide(op.rule, factor)) continue;
    for (int axis : candidate.axes) {
      if (sharding.uses(axis)) break;
      if (is_time(*sharding.mesh, axis) &&
          !may_divide_by_micro_batches(op.rule, factor, sharding.mesh->shape()[axis]))
        break;
      sharding.factor_axes[factor].push_back(axis);
    }
    if (candidate.chunks > 1) take_chunks(op.view, op.rule, factor, candidate.chunks, sharding);
  }
  return sharding;
}

}  // namespace tessera
