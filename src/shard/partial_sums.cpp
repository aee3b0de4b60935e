#include "shard/partial_sums.h"

#include <algorithm>

#include "shard/candidates.h"

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

/// May the value stay partial until its only user?
bool may_stay_partial(const PropagationState& state, ValueId value, int axis) {
  const Value& v = state.graph().value(value);
  if (enters_region_partial(state, value, axis)) return v.users.size() == 1;
  const TensorPlacement& placed = state.canonical(value);
  if (v.producer.index < 0 || v.users.size() != 1 || placed.fixed || placed.attr.uses(axis))
    return false;
  // A value is reduced before it is sent to another mesh.
  if (state.stage_of(v.producer) != state.stage_of(v.users.front())) return false;
  const bool is_next_of_variable = state.shared(value) != value;
  if (is_next_of_variable) return false;
  for (const auto& [name, output] : state.graph().outputs())
    if (output == value) return false;
  return has_partial_sum(made_attr(state, value), axis);
}

void keep_partial(PropagationState& state, ValueId value, int axis) {
  DistAttr& attr = state.canonical(value).attr;
  if (attr.is_partial_on(axis)) return;
  attr.partial.push_back({axis, ReduceOp::kSum});
  std::sort(attr.partial.begin(), attr.partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
}

/// Are exactly the inputs of a linear set of the op partial on the axis, and is the result not
/// larger than they are?
bool may_pass(const PropagationState& state, OpId id, const std::vector<int>& set, int axis) {
  const OpState& op = state.op(id);
  const auto& inputs = state.graph().op(id).inputs;
  int64_t in_elements = 0, out_elements = 0;
  for (const TensorType& type : op.view.outputs)
    out_elements = std::max(out_elements, element_count(type.shape));
  bool all = true;
  for (int i = 0; i < std::ssize(inputs); ++i) {
    const bool is_in_set = std::find(set.begin(), set.end(), i) != set.end();
    all = all && is_in_set == may_stay_partial(state, inputs[i], axis);
    if (is_in_set) in_elements = std::max(in_elements, element_count(op.view.inputs[i].shape));
  }
  return all && !set.empty() && out_elements <= in_elements;
}

}  // namespace

void pass_partial_sums(PropagationState& state, OpId id) {
  OpState& op = state.op(id);
  if (op.mark) return;
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
