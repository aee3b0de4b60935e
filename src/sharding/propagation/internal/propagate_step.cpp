#include "sharding/propagation/internal/propagate_step.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "sharding/propagation/candidates.h"
#include "sharding/propagation/internal/op_decision.h"

namespace tessera {
namespace {

/// Returns true when a marked result of the step got the micro-batches of the op.
bool propagate_time(PropagationState& state, OpId id, int index, TensorPlacement& placed) {
  if (!state.has_time() || placed.attr.uses(0) || state.is_leaf(state.operand(id, index)))
    return false;
  const OpSharding& sharding = state.op(id).sharding;
  const OperandFactors& dims = state.factors_of_operand(id, index);
  for (size_t d = 0; d < dims.size(); ++d) {
    const int factor = divided_factor(dims[d], sharding);
    DimSharding& held = placed.attr.dims[d];
    // An open dim without axes of its own gets all axes of the op below.
    if ((held.axes.empty() && !placed.fixes(d)) || factor < 0 ||
        !starts_with_time(state, sharding.factor_axes[factor]) || !held.windows.empty() ||
        held.chunks > 1)
      continue;
    held.axes.insert(held.axes.begin(), 0);
    return true;
  }
  return false;
}

/// Gives a dim only the micro-batches of the op, whose other axes divide another dim of the tensor.
/// Axes may be exchanged for others, but what is made once a step is not read by micro-batch.
bool propagate_time_alone(const PropagationState& state, OpId id, int index, size_t dim,
                          TensorPlacement& placed) {
  const int factor =
      divided_factor(state.factors_of_operand(id, index)[dim], state.op(id).sharding);
  DimSharding& held = placed.attr.dims[dim];
  if (!starts_with_time(state, state.op(id).sharding.factor_axes[factor]) || placed.attr.uses(0) ||
      !held.axes.empty() || state.is_leaf(state.operand(id, index)))
    return false;
  held = {{0}, 1, {}, 1};
  return true;
}

/// The placement that the op's sharding implies for an operand.
DistAttr implied_attr(const PropagationState& state, OpId id, int index) {
  const OpState& op = state.op(id);
  const int inputs = static_cast<int>(op.rule.inputs.size());
  return index < inputs ? input_attr(op.view, op.rule, op.sharding, index)
                        : output_attr(op.view, op.rule, op.sharding, index - inputs);
}

/// Do the axes of a factor extend those of the dim by axes that the tensor does not use yet?
bool extends(const Axes& axes, const DistAttr& attr, size_t dim) {
  const Axes& held = attr.dims[dim].axes;
  if (axes.size() <= held.size() || !is_prefix(held, axes)) return false;
  return std::none_of(axes.begin() + held.size(), axes.end(),
                      [&](int axis) { return attr.uses(axis); });
}

/// Gives the open dims of an operand the axes of the op. Returns true when a dim got one.
bool propagate_to_operand(PropagationState& state, OpId id, int index, TensorPlacement& placed) {
  const OpState& op = state.op(id);
  const OperandFactors& dims = state.factors_of_operand(id, index);
  bool changed = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int factor = divided_factor(dims[d], op.sharding);
    if (placed.fixes(d) || factor < 0) continue;
    if (!extends(op.sharding.factor_axes[factor], placed.attr, d)) {
      changed |= propagate_time_alone(state, id, index, d, placed);
      continue;
    }
    const DimSharding asked = implied_attr(state, id, index).dims[d];
    const bool in_chunks = asked.chunks > 1 && !state.has_one_piece(state.operand(id, index));
    const int64_t chunks = in_chunks ? asked.chunks : 1;
    DimSharding& held = placed.attr.dims[d];
    if (!held.axes.empty() && held.chunks != chunks) continue;
    // Windows belong to one op: the tensor is divided by the same axes without windows, and each op
    // gets its halo by an exchange.
    const bool has_unit = asked.windows.empty() && (in_chunks || asked.chunks == 1);
    held = {asked.axes, has_unit ? asked.unit : 1, {}, chunks};
    if (placed.reason.empty())
      placed.reason = "op '" + std::string(op.view.name) + "' divides factor " +
                      op.rule.factors[factor].name + (op.mark ? " (marked)" : "");
    changed = true;
  }
  return changed;
}

/// The axes of `to`'s mesh with the names and sizes of those that divide a dim of `from`. When the
/// mesh lacks one of them or `to` uses it already, only the micro-batches, which all meshes have.
Axes same_axes(const DistAttr& from, size_t dim, const DistAttr& to) {
  Axes axes;
  for (int axis : from.dims[dim].axes) {
    const std::optional<int> index = to.mesh->find_axis(from.mesh->axes()[axis]);
    if (!index || to.mesh->shape()[*index] != from.mesh->shape()[axis] || to.uses(*index)) {
      const bool has_time = !axes.empty() && is_time(*to.mesh, axes.front());
      return has_time ? Axes{axes.front()} : Axes{};
    }
    axes.push_back(*index);
  }
  return axes;
}

/// Gives a dim the micro-batches that the same axes have on another mesh. A marked tensor gets them
/// from its op, after its axes went to the other meshes. Returns true when the dim got them.
bool propagate_time_to_mesh(const DistAttr& from, size_t dim, DistAttr& to) {
  const auto names = [dim](const DistAttr& attr) {
    std::vector<std::string> list;
    for (const int axis : attr.dims[dim].axes) list.push_back(attr.mesh->axes()[axis]);
    return list;
  };
  Axes& held = to.dims[dim].axes;
  if (held.empty() || !is_time(*to.mesh, 0) || to.uses(0)) return false;
  const std::vector<std::string> wanted = names(from);
  if (wanted.front() != kMicroBatchAxis ||
      !std::ranges::equal(std::span(wanted).subspan(1), names(to)))
    return false;
  held.insert(held.begin(), 0);
  return true;
}

/// Gives the open dims of a tensor on one mesh the axes that they have on another. Returns true
/// when a dim got an axis.
bool propagate_to_mesh(const TensorPlacement& from, TensorPlacement& to) {
  bool changed = false;
  for (size_t d = 0; d < from.attr.dims.size(); ++d) {
    if (!to.fixes(d) && !from.attr.dims[d].axes.empty())
      changed |= propagate_time_to_mesh(from.attr, d, to.attr);
    if (to.fixes(d) || from.attr.dims[d].axes.empty() || !to.attr.dims[d].axes.empty()) continue;
    const Axes axes = same_axes(from.attr, d, to.attr);
    if (axes.empty()) continue;
    to.attr.dims[d] = {axes, from.attr.dims[d].unit, {}, from.attr.dims[d].chunks};
    if (to.reason.empty()) to.reason = from.reason + ", on another mesh";
    changed = true;
  }
  return changed;
}

}  // namespace

bool propagate_step(PropagationState& state, OpId id, OpenOps& open) {
  state.op(id).sharding = decide_sharding(state, id);
  bool changed = false;
  for (int i = 0; i < state.operand_count(id); ++i) {
    TensorPlacement& placed = state.placement_of_operand(id, i);
    bool has_changed = placed.fixed && propagate_time(state, id, i, placed);
    has_changed |= propagate_to_operand(state, id, i, placed);
    if (!has_changed) continue;
    const ValueId value = state.shared(state.operand(id, i));
    // The ops of a later stage must know the axes of the batch before the round comes to the
    // optimizer, whose state may be divided over the same axes in another dim.
    for (TensorPlacement& other : state.placements()[value.index])
      if (&other != &placed) propagate_to_mesh(placed, other);
    open.open(value);
    changed = true;
  }
  return changed;
}

bool propagate_between_meshes(std::vector<TensorPlacement>& placements) {
  bool changed = false;
  for (const TensorPlacement& from : placements)
    for (TensorPlacement& to : placements)
      if (&from != &to) changed |= propagate_to_mesh(from, to);
  return changed;
}

}  // namespace tessera
