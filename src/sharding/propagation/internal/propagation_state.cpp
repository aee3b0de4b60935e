#include "sharding/propagation/internal/propagation_state.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "sharding/propagation/candidates.h"

namespace tessera {
namespace {

/// Is the axis the first one that divides some dim?
bool divides_first(const DistAttr& attr, int axis) {
  return std::ranges::any_of(attr.dims, [&](const DimSharding& dim) {
    return !dim.axes.empty() && dim.axes.front() == axis;
  });
}

}  // namespace

PropagationState::PropagationState(const Graph& graph, const Meshes& meshes,
                                   const std::vector<Mark>& marks, const RuleLookup& rules,
                                   MeshAssignment stages, const RegionEnds* ends)
    : graph_(graph),
      is_region_(ends != nullptr),
      has_time_(ends == nullptr && is_time(*meshes.front().mesh, 0)),
      meshes_(meshes),
      rules_(rules),
      stages_(std::move(stages)),
      marks_(resolve_marks(graph, meshes, stages_, marks, rules_)) {
  find_at_rest(copy_lives(graph, marks));
  place_replicated();
  place_marked();
  allow_chunks();
  if (ends)
    fix_ends(*ends);
  else
    for (ValueId input : graph_.inputs()) divide_by_micro_batches(canonical(input));
  for (const Op& op : graph_.ops()) add_op(op, OpId{op_count()});
  for (const MarkedOp& marked : marks_.ops) ops_[marked.op.index].mark = &marked;
}

void PropagationState::find_stages_of_values() {
  stages_of_.resize(graph_.values().size());
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const Value& value = graph_.value({i});
    std::vector<int>& stages = stages_of_[shared({i}).index];
    stages.push_back(stages_.values[i]);
    if (value.producer.index >= 0) stages.push_back(stage_of(value.producer));
    for (OpId user : value.users) stages.push_back(stage_of(user));
  }
  for (std::vector<int>& stages : stages_of_) {
    std::ranges::sort(stages);
    stages.erase(std::ranges::unique(stages).begin(), stages.end());
  }
}

size_t PropagationState::position_of(ValueId value, int stage) const {
  const std::vector<int>& stages = stages_of_[shared(value).index];
  const auto found = std::ranges::lower_bound(stages, stage);
  if (found == stages.end() || *found != stage)
    throw InternalError("stage " + std::to_string(stage) + " does not have '" +
                        graph_.value(value).name + "'");
  return static_cast<size_t>(found - stages.begin());
}

void PropagationState::place_replicated() {
  for (int i = 0; i < std::ssize(graph_.values()); ++i) shared_.push_back({i});
  for (const Variable& variable : graph_.variables())
    if (variable.next && graph_.value(*variable.next).producer.index >= 0 &&
        !at_rest(variable.value))
      shared_[variable.next->index] = variable.value;
  find_stages_of_values();
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    placements_.emplace_back();
    for (int stage : stages_of_[i])
      placements_.back().push_back(
          {DistAttr::replicated(meshes_[stage].mesh, graph_.value({i}).type.shape.size()), false,
           ""});
  }
}

/// The names of the axes over which marks divide inputs.
std::set<std::string> PropagationState::axes_of_inputs() const {
  std::set<std::string> names;
  for (const MarkedValue& marked : marks_.values) {
    if (!graph_.is_input(marked.value)) continue;
    for (const DimSharding& dim : marked.attr.dims)
      for (const int axis : dim.axes) names.insert(marked.attr.mesh->axes()[axis]);
  }
  return names;
}

/// How ops that read copies of a variable at rest see it: gathered over the axes of the inputs.
DistAttr PropagationState::as_gathered(DistAttr attr, const std::set<std::string>& axes) {
  for (DimSharding& dim : attr.dims) {
    std::erase_if(dim.axes, [&](int axis) { return axes.contains(attr.mesh->axes()[axis]); });
    if (dim.axes.empty()) dim = {};
  }
  return attr;
}

void PropagationState::find_at_rest(const std::vector<std::optional<ReplicaLifetime>>& copies) {
  if (copies.empty()) return;
  // The placement at rest is also that of the next value: both must be on one mesh, and it must be
  // the next value of no other variable.
  const auto has_next_of_its_own = [&](const Variable& variable) {
    if (!variable.next || graph_.value(*variable.next).producer.index < 0) return true;
    return stages_.values[variable.next->index] == stages_.values[variable.value.index] &&
           std::ranges::count(graph_.variables(), variable.next, &Variable::next) == 1;
  };
  for (const MarkedValue& marked : marks_.values) {
    const Variable* variable = graph_.variable_of(marked.value);
    if (variable && copies[marked.value.index] && marked.attr.partial.empty() &&
        has_next_of_its_own(*variable))
      at_rest_.emplace(marked.value, marked.attr);
  }
}

const DistAttr* PropagationState::at_rest(ValueId variable) const {
  const auto found = at_rest_.find(variable);
  return found == at_rest_.end() ? nullptr : &found->second;
}

void PropagationState::place_marked() {
  const std::set<std::string> of_inputs = axes_of_inputs();
  for (const MarkedValue& marked : marks_.values) {
    const bool is_made = graph_.value(marked.value).producer.index >= 0;
    if (is_time(*marked.attr.mesh, 0) && marked.attr.uses(0) &&
        !(is_made && (divides_first(marked.attr, 0) || marked.attr.is_partial_on(0))))
      throw UserError("mark '" + marked.mark->pattern + "' (" + marked.mark->origin +
                          ") divides by micro-batches itself",
                      "dim 0 of every input is divided by '" + std::string(kMicroBatchAxis) +
                          "' first, whatever the marks say",
                      "leave '" + std::string(kMicroBatchAxis) + "' out of the mark",
                      ExitCode::kBadConfig);
    // Uses the mesh for which the mark was parsed: the next value of a variable may be produced on
    // another mesh than that of the variable.
    TensorPlacement& placed = placement(marked.value, stages_.values[marked.value.index]);
    const bool is_gathered = at_rest(marked.value) != nullptr;
    const DistAttr attr = is_gathered ? as_gathered(marked.attr, of_inputs) : marked.attr;
    if (placed.fixed && !(placed.attr == attr))
      throw UserError("two marks place '" + graph_.value(marked.value).name +
                          "' and the variable that it becomes differently",
                      "the state has the same placement before and after a step: " +
                          to_text(placed.attr) + " and " + to_text(attr),
                      "mark only the variable", ExitCode::kBadConfig);
    placed = {attr, true, "mark '" + marked.mark->pattern + "' (" + marked.mark->origin + ")",
              marked.open};
    if (!is_gathered) continue;
    // The optimizer updates what rests on the rank.
    const std::optional<ValueId> next = graph_.variable_of(marked.value)->next;
    if (next && graph_.value(*next).producer.index >= 0)
      canonical(*next) = {marked.attr, true, placed.reason};
  }
}

void PropagationState::allow_chunks() {
  may_have_chunks_.assign(graph_.values().size(), false);
  for (const Variable& variable : graph_.variables())
    if (const auto parameter = graph_.find_value(variable.origin.source))
      may_have_chunks_[variable.value.index] = canonical(*parameter).attr.has_chunks();
}

/// Places the inputs and outputs of a region as its op has them.
void PropagationState::fix_ends(const RegionEnds& ends) {
  for (size_t i = 0; i < ends.inputs.size(); ++i)
    canonical(graph_.inputs()[i]) = {ends.inputs[i], true, "operand " + std::to_string(i)};
  for (size_t i = 0; i < ends.outputs.size(); ++i)
    if (TensorPlacement& end = canonical(graph_.outputs()[i].second); !end.fixed)
      end = {ends.outputs[i], true, "result " + std::to_string(i)};
}

/// Divides the batch first by the micro-batches; the mesh then divides each of them.
void PropagationState::divide_by_micro_batches(TensorPlacement& placement) {
  if (placement.attr.dims.empty() || !is_time(*placement.attr.mesh, 0)) return;
  ensure(placement.attr.dims.front().chunks == 1, "the rows of an input are not in chunks");
  auto& axes = placement.attr.dims.front().axes;
  axes.insert(axes.begin(), 0);
  if (placement.reason.empty()) placement.reason = "micro-batches";
}

void PropagationState::add_op(const Op& op, OpId id) {
  OpView op_view = view(graph_, op);
  RulePtr shared_rule = rules_.find(op.kind, op_view);
  const ShardingRule& rule = *shared_rule;
  // Ops of one kind and rule share a note.
  const std::string what = "brings no rule; discovered by execution: " + rule.discovered;
  if (!rule.discovered.empty() && discovered_.insert(op.kind + " " + what).second)
    add_note({ShardingNote::Kind::kDiscovered, op.name, op.kind + " '" + op.name + "' " + what});
  OpSharding sharding = OpSharding::replicated(mesh_of(id), rule);
  ops_.push_back({std::move(op_view), std::move(shared_rule), std::move(sharding)});
}

ValueId PropagationState::operand(OpId id, int index) const {
  const Op& op = graph_.op(id);
  return is_input(id, index) ? op.inputs[index] : op.outputs[index - op.inputs.size()];
}

int PropagationState::operand_count(OpId id) const {
  const Op& op = graph_.op(id);
  return static_cast<int>(op.inputs.size() + op.outputs.size());
}

bool PropagationState::is_input(OpId id, int index) const {
  return index < std::ssize(graph_.op(id).inputs);
}

const OperandFactors& PropagationState::factors_of_operand(OpId id, int index) const {
  const ShardingRule& rule = op(id).rule;
  return index < std::ssize(rule.inputs) ? rule.inputs[index]
                                         : rule.outputs[index - rule.inputs.size()];
}

/// A cast of what rests on a rank, which mixed precision makes, casts what the rank has. So its
/// result is gathered in place of the variable.
void PropagationState::cast_at_rest(ValueId variable, const DistAttr& attr,
                                    ShardedGraph& sharded) const {
  for (const OpId user : graph_.value(variable).users) {
    const Op& op = graph_.op(user);
    if (op.kind != "cast" || op.role != Role::kForward ||
        stage_of(user) != stages_.values[variable.index])
      continue;
    // A mark of the result, or the variable that it becomes, says where it is.
    const ValueId result = op.outputs.front();
    if (shared(result) != result || canonical(result).fixed) continue;
    const auto index = static_cast<size_t>(user.index);
    sharded.ops[index] = sharding_for_inputs(view(graph_, op), sharded.rules[index], {attr});
    sharded.values[static_cast<size_t>(result.index)] = attr;
  }
}

ShardedGraph PropagationState::take_result() {
  ShardedGraph sharded;
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const DistAttr* rest = at_rest(shared({i}));
    sharded.values.push_back(rest ? *rest : canonical({i}).attr);
    sharded.value_reasons.push_back(canonical({i}).reason);
  }
  for (OpState& state : ops_) {
    sharded.ops.push_back(std::move(state.sharding));
    sharded.rules.push_back(state.shared_rule);
  }
  for (const auto& [variable, attr] : at_rest_) cast_at_rest(variable, attr, sharded);
  sharded.meshes = std::move(meshes_);
  sharded.stages = std::move(stages_);
  sharded.notes = std::move(notes_);
  return sharded;
}

}  // namespace tessera
