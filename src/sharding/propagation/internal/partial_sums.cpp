#include "sharding/propagation/internal/partial_sums.h"

#include <algorithm>
#include <optional>

#include "sharding/propagation/candidates.h"

namespace tessera {
namespace {

bool has_partial_sum(const DistAttr& attr, int axis) {
  return std::find(attr.partial.begin(), attr.partial.end(), PartialAxis{axis, ReduceOp::kSum}) !=
         attr.partial.end();
}

/// The placement in which the op of a value produces it.
DistAttr made_attr(const PropagationState& state, ValueId value) {
  const OpId producer = state.graph().value(value).producer;
  const OpState& op = state.op(producer);
  const auto& outputs = state.graph().op(producer).outputs;
  int index = 0;
  while (outputs[index] != value) ++index;
  return output_attr(op.view, op.rule, op.sharding, index);
}

/// Does a region get the value as a partial sum from outside?
bool enters_region_partial(const PropagationState& state, ValueId value, int axis) {
  return state.is_region() && state.graph().is_input(value) &&
         has_partial_sum(state.canonical(value).attr, axis);
}

/// Is the value an intermediate that one op makes and one op of the same stage reads, and that no
/// mark places?
bool is_for_one_op(const PropagationState& state, ValueId value) {
  const Value& v = state.graph().value(value);
  if (v.producer.index < 0 || v.users.size() != 1 || state.canonical(value).fixed) return false;
  // A value is reduced before it is sent to another mesh.
  if (state.stage_of(v.producer) != state.stage_of(v.users.front())) return false;
  const bool is_next_of_variable = state.shared(value) != value;
  if (is_next_of_variable) return false;
  return std::ranges::none_of(state.graph().outputs(),
                              [&](const auto& output) { return output.second == value; });
}

/// May the value stay partial until its only user?
bool may_stay_partial(const PropagationState& state, ValueId value, int axis) {
  if (enters_region_partial(state, value, axis))
    return state.graph().value(value).users.size() == 1;
  return is_for_one_op(state, value) && !state.canonical(value).attr.uses(axis) &&
         has_partial_sum(made_attr(state, value), axis);
}

void keep_partial(PropagationState& state, ValueId value, int axis) {
  DistAttr& attr = state.canonical(value).attr;
  if (attr.is_partial_on(axis)) return;
  attr.partial.push_back({axis, ReduceOp::kSum});
  std::sort(attr.partial.begin(), attr.partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
}

/// Are exactly the inputs of a linear set of the op partial on the axis, and has the result not
/// more bytes than they have?
bool may_pass(const PropagationState& state, OpId id, const std::vector<int>& set, int axis) {
  const OpState& op = state.op(id);
  const auto& inputs = state.graph().op(id).inputs;
  Bytes in(0), out(0);
  for (const TensorType& type : op.view.outputs) out = std::max(out, byte_size(type));
  bool all = true;
  for (int i = 0; i < std::ssize(inputs); ++i) {
    const bool is_in_set = std::find(set.begin(), set.end(), i) != set.end();
    all = all && is_in_set == may_stay_partial(state, inputs[i], axis);
    if (is_in_set) in = std::max(in, byte_size(op.view.inputs[i]));
  }
  return all && !set.empty() && out <= in;
}

// ---- casts to fewer bytes ----

/// The factor that the axis divides in one piece for each rank; -1: none.
int plainly_divided_factor(const OpSharding& sharding, int axis) {
  for (int f = 0; f < std::ssize(sharding.factor_axes); ++f)
    if (std::ranges::count(sharding.factor_axes[f], axis) > 0)
      return sharding.windows_of(f).empty() && sharding.chunks_of(f) == 1 ? f : -1;
  return -1;
}

void undivide(PropagationState& state, OpId id, const std::vector<int>& inputs, int axis,
              int factor) {
  std::erase(state.op(id).sharding.factor_axes[factor], axis);
  for (const int input : inputs)
    for (DimSharding& dim : state.canonical(state.graph().op(id).inputs[input]).attr.dims) {
      std::erase(dim.axes, axis);
      if (dim.axes.empty()) dim = {};
    }
}

/// Where dividing the result of an op costs more than dividing its operands: one that makes fewer
/// bytes of a partial sum, as a cast to 16 bits, and one that adds several partial sums. It takes
/// them undivided over the axes on which they are partial, even where its result is divided over
/// them: so it is its result that is reduced and divided, by one exchange.
void leave_parts_undivided(PropagationState& state, OpId id) {
  OpState& op = state.op(id);
  if (op.rule.outputs.size() != 1) return;
  const std::vector<ValueId>& inputs = state.graph().op(id).inputs;
  for (const std::vector<int>& set : op.rule.linear) {
    const bool makes_fewer = set.size() == 1 && inputs.size() == 1 &&
                             byte_size(op.view.outputs[0]) < byte_size(op.view.inputs[0]);
    if (!makes_fewer && set.size() < 2) continue;
    if (set.size() != inputs.size() ||
        !std::ranges::all_of(set, [&](int i) { return is_for_one_op(state, inputs[i]); }))
      continue;
    for (const PartialAxis& part : made_attr(state, inputs[set.front()]).partial) {
      const bool are_partial = std::ranges::all_of(
          set, [&](int i) { return has_partial_sum(made_attr(state, inputs[i]), part.axis); });
      if (!are_partial || is_time(*op.sharding.mesh, part.axis)) continue;
      const int factor = plainly_divided_factor(op.sharding, part.axis);
      if (factor >= 0) undivide(state, id, set, part.axis, factor);
    }
  }
}

// ---- sums over micro-batches ----

/// A linear set of the op whose inputs all may be sums over micro-batches, each read by it alone.
std::optional<int> set_of_sums(const PropagationState& state, OpId id);

/// Is the value such a sum, or can its op make it as one?
bool can_be_sum(const PropagationState& state, ValueId value) {
  if (enters_region_partial(state, value, kMicroBatchAxisIndex))
    return state.graph().value(value).users.size() == 1;
  return is_for_one_op(state, value) &&
         (has_partial_sum(made_attr(state, value), kMicroBatchAxisIndex) ||
          set_of_sums(state, state.graph().value(value).producer).has_value());
}

std::optional<int> set_of_sums(const PropagationState& state, OpId id) {
  const OpState& op = state.op(id);
  if (op.mark || op.sharding.uses(kMicroBatchAxisIndex)) return std::nullopt;
  const auto& inputs = state.graph().op(id).inputs;
  for (int set = 0; set < std::ssize(op.rule.linear); ++set)
    if (std::ranges::all_of(op.rule.linear[set],
                            [&](int i) { return can_be_sum(state, inputs[i]); }))
      return set;
  return std::nullopt;
}

}  // namespace

void pass_sums_of_micro_batches(PropagationState& state) {
  for (int i = state.op_count() - 1; i >= 0; --i) {
    const Op& op = state.graph().op(OpId{i});
    if (!is_time(*state.op(OpId{i}).sharding.mesh, kMicroBatchAxisIndex) ||
        op.outputs.size() != 1 ||
        !has_partial_sum(state.canonical(op.outputs[0]).attr, kMicroBatchAxisIndex))
      continue;
    const std::optional<int> set = set_of_sums(state, OpId{i});
    if (!set) continue;
    state.op(OpId{i}).sharding.linear.push_back({kMicroBatchAxisIndex, *set});
    for (const int input : state.op(OpId{i}).rule.linear[*set])
      keep_partial(state, op.inputs[input], kMicroBatchAxisIndex);
  }
}

void pass_partial_sums(PropagationState& state, OpId id) {
  OpState& op = state.op(id);
  if (op.mark) return;
  leave_parts_undivided(state, id);
  for (int axis = 0; axis < op.sharding.mesh->axis_count(); ++axis) {
    // A sum over micro-batches is reduced at once, so that each op after it runs once per step. In
    // a region this is not possible.
    if (op.sharding.uses(axis) || (is_time(*op.sharding.mesh, axis) && !state.is_region()))
      continue;
    for (int set = 0; set < std::ssize(op.rule.linear); ++set) {
      const std::vector<int>& members = op.rule.linear[set];
      if (!may_pass(state, id, members, axis)) continue;
      op.sharding.linear.push_back({axis, set});
      for (int i : members) keep_partial(state, state.graph().op(id).inputs[i], axis);
      break;
    }
  }
}

}  // namespace tessera
