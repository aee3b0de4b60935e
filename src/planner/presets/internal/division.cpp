#include "planner/presets/internal/division.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/ops/parameter_roles.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/roles.h"
#include "sharding/explicit/name_patterns.h"

namespace tessera {
namespace {

std::string quoted(const std::string& axis) {
  return '"' + axis + '"';
}

std::string spec_of(const AxesOfDims& axes, const std::string& undivided = "") {
  std::vector<std::string> parts;
  for (const std::vector<std::string>& dim : axes) {
    std::vector<std::string> names;
    for (const std::string& axis : dim) names.push_back(quoted(axis));
    parts.push_back(dim.empty()       ? "None"
                    : dim.size() == 1 ? names[0]
                                      : "(" + join(names, ", ") + ")");
  }
  while (!parts.empty() && parts.back() == "None") parts.pop_back();
  return parts.empty() ? undivided : "P(" + join(parts, ", ") + ")";
}

/// Does the forward read the variable through casts to a smaller type alone? Then a rank that has a
/// part of it keeps the casts of the others.
bool is_master(const Graph& graph, ValueId variable) {
  bool is_read = false;
  for (const OpId user : graph.value(variable).users) {
    const Op& op = graph.op(user);
    if (op.role != Role::kForward) continue;
    const bool is_smaller = op.kind == "cast" && size_of(graph.type(op.outputs.front()).dtype) <
                                                     size_of(graph.type(variable).dtype);
    if (!is_smaller) return false;
    is_read = true;
  }
  return is_read;
}

}  // namespace

bool Degrees::has(std::string_view axis) const {
  return std::find(names.begin(), names.end(), axis) != names.end();
}

std::vector<std::string> Degrees::data_axes() const {
  std::vector<std::string> axes;
  for (const std::string_view axis : {kDataAxis, kShardedDataAxis})
    if (has(axis)) axes.emplace_back(axis);
  return axes;
}

std::string Degrees::zero_axis() const {
  const std::vector<std::string> axes = data_axes();
  return axes.empty() ? "" : axes.back();
}

void TensorMarks::add(ValueId value, const std::string& placement) {
  if (placement.empty()) return;
  if (!names_.contains(placement)) placements_.push_back(placement);
  names_[placement].push_back(graph_.value(value).name);
}

bool TensorMarks::has(ValueId value) const {
  const std::string& name = graph_.value(value).name;
  return std::any_of(names_.begin(), names_.end(), [&](const auto& entry) {
    return std::find(entry.second.begin(), entry.second.end(), name) != entry.second.end();
  });
}

void TensorMarks::add_life(ValueId value, ReplicaLifetime life) {
  lives_[life].push_back(graph_.value(value).name);
}

std::vector<Mark> TensorMarks::all(const std::string& origin) const {
  std::vector<Mark> marks;
  for (const std::string& placement : placements_)
    for (std::string& pattern : to_patterns(names_.at(placement)))
      marks.push_back(shard_tensor(std::move(pattern), placement, origin));
  for (const auto& [life, names] : lives_)
    for (std::string& pattern : to_patterns(names))
      marks.push_back(copies_live_for(life, std::move(pattern), origin));
  return marks;
}

Division::Division(const Graph& graph, Degrees degrees)
    : graph_(graph),
      degrees_(std::move(degrees)),
      dims_(dim_classes_of(graph)),
      axes_(dims_.classes.size()),
      is_batch_(dims_.classes.size()),
      is_position_(dims_.classes.size()) {
  for (DimClassIndex index : space_classes(graph, dims_)) is_position_[index.value()] = true;
  const std::vector<DimClassIndex> rows = batch_classes(graph, dims_);
  for (DimClassIndex index : rows) is_batch_[index.value()] = true;
  divide(rows, degrees_.data_axes());
  if (degrees_.has(kSpaceAxis)) divide(space(), {std::string(kSpaceAxis)});
  if (degrees_.has(kTensorAxis)) divide(tensor(), {std::string(kTensorAxis)});
}

void Division::divide(const std::vector<DimClassIndex>& classes,
                      const std::vector<std::string>& axes) {
  for (DimClassIndex index : classes) axes_[index.value()] = axes;
}

std::vector<DimClassIndex> Division::space() const {
  std::vector<DimClassIndex> found = space_classes(graph_, dims_);
  if (share_of_products(dims_, found) < kSearchPolicy.share_of_space)
    refuse_config("preset '" + degrees_.text + "': sp divides too little of this network",
                  "sp divides rows of images or positions of a sequence, and less than half of the "
                  "products and convolutions here keep them",
                  "use dp or tp");
  return found;
}

std::vector<DimClassIndex> Division::tensor() const {
  std::vector<DimClassIndex> found = tensor_classes(graph_, dims_);
  if (found.empty())
    refuse_config("preset '" + degrees_.text + "': tp divides no weight of this network",
                  "dividing any of them would exchange more than it saves", "use dp or pp");
  return found;
}

std::vector<Mark> Division::marks(const std::string& origin, const FurtherDivision& further,
                                  const Gradients& gradients) const {
  TensorMarks marks(graph_);
  for (ValueId value : marked())
    if (further.zero == 0 || !is_parameter(value)) marks.add(value, placement_of(value));
  if (further.zero > 0) divide_state(further, gradients, marks, [](ValueId) { return true; });
  std::vector<Mark> of_ops;
  if (further.divides_positions) divide_positions(marks, origin, of_ops);
  std::vector<Mark> all = marks.all(origin);
  all.insert(all.end(), of_ops.begin(), of_ops.end());
  return all;
}

bool Division::is_parameter(ValueId value) const {
  const Variable* variable = graph_.variable_of(value);
  return variable && variable->trainable;
}

std::map<std::string, std::vector<ValueId>> Division::states_of_parameters() const {
  std::map<std::string, std::vector<ValueId>> states;
  for (const Variable& variable : graph_.variables())
    if (!variable.origin.source.empty()) states[variable.origin.source].push_back(variable.value);
  return states;
}

void Division::divide_state_of(ValueId parameter, const FurtherDivision& further,
                               const Gradients& gradients,
                               const std::map<std::string, std::vector<ValueId>>& states,
                               TensorMarks& marks) const {
  const AxesOfDims whole = axes_of(parameter), parts = divided_by_data(parameter);
  const bool is_divided = parts != whole;
  const bool frees_copies = further.zero == 3 && is_divided;
  const bool at_rest =
      frees_copies || (further.divides_masters && is_divided && is_master(graph_, parameter));
  marks.add(parameter, spec_of(at_rest ? parts : whole, "P()"));
  if (at_rest)
    marks.add_life(parameter, frees_copies ? ReplicaLifetime::kPass : ReplicaLifetime::kStep);
  const std::string& name = graph_.value(parameter).name;
  const auto found = gradients.find(name);
  if (is_divided && found != gradients.end())
    for (const ValueId gradient : found->second)
      marks.add(gradient, summed_over_micro_batches(parts));
  const auto of_parameter = states.find(name);
  if (of_parameter == states.end()) return;
  for (const ValueId state : of_parameter->second)
    if (graph_.type(state).shape == graph_.type(parameter).shape)
      marks.add(state, spec_of(parts, "P()"));
}

std::optional<int> Division::position_dim(ValueId value) const {
  for (int d = 0; d < graph_.type(value).shape.size(); ++d)
    if (is_position_[dims_.of_value[value.index][d].value()]) return d;
  return std::nullopt;
}

/// Marks the sums that tensor parallelism makes of rows: each rank gets those of some positions,
/// and what follows, up to the next product with divided weights, has them alone. That product
/// gathers them, and anew for the gradient of its weights, which is divided as the weights are.
void Division::divide_positions(TensorMarks& marks, const std::string& origin,
                                std::vector<Mark>& of_ops) const {
  std::set<ValueId> gathered;
  std::map<std::string, std::vector<OpId>> gradients;  // by the forward op
  for (int i = 0; i < std::ssize(graph_.ops()); ++i)
    if (graph_.ops()[i].role == Role::kBackward)
      gradients[graph_.ops()[i].origin.source].push_back({i});
  std::map<std::string, std::vector<std::string>> placed;  // ops by their placements
  bool divides_some = false;
  for (DimClassIndex index : tensor_classes(graph_, dims_)) {
    const DimClass& tensor_class = dims_.classes[index];
    for (const ValueId sum : tensor_class.sums) {
      const std::optional<int> dim = position_dim(sum);
      if (!dim) continue;
      AxesOfDims axes = axes_of(sum);
      axes[*dim].emplace_back(kTensorAxis);
      marks.add(sum, spec_of(axes));
      divides_some = true;
    }
    for (const OpId op : tensor_class.weight_ops) {
      for (const ValueId input : graph_.op(op).inputs)
        if (is_gathered(input, index)) {
          gathered.insert(input);
          placed[placements_of_operands(op)].push_back(graph_.op(op).name);
        }
      for (const OpId gradient : gradients[graph_.op(op).name])
        if (const std::string text = placements_of_gradient(op, gradient, marks); !text.empty())
          placed[text].push_back(graph_.op(gradient).name);
    }
  }
  if (!divides_some)
    refuse_config("preset '" + degrees_.text + "': " + std::string(kSequenceKey) +
                      " divides nothing of this network",
                  "it divides the positions of the sums that tp makes, and no sum here has any",
                  "remove " + std::string(kSequenceKey));
  for (const ValueId value : gathered) marks.add_life(value, ReplicaLifetime::kPass);
  for (const auto& [placements, names] : placed)
    for (std::string& pattern : to_patterns(names))
      of_ops.push_back(shard_op(std::move(pattern), placements, origin));
}

/// Is it an activation with positions that an op of the class reads, and no dim of the class?
bool Division::is_gathered(ValueId input, DimClassIndex index) const {
  const std::vector<DimClassIndex>& dims = dims_.of_value[input.index];
  return !variable_after(graph_, input) && !graph_.is_input(input) && position_dim(input) &&
         std::find(dims.begin(), dims.end(), index) == dims.end();
}

/// How a product takes its operands: positions whole, weights divided. Without it the weight may be
/// gathered instead, which alone is smaller than many rows and leaves its result divided otherwise.
std::string Division::placements_of_operands(OpId op) const {
  std::vector<std::string> inputs;
  for (const ValueId input : graph_.op(op).inputs) inputs.push_back(spec_of(axes_of(input), "P()"));
  return "[" + join(inputs, ", ") + "]";
}

/// How an op of the backward takes its operands where positions are whole: the results of the
/// forward, or weights, as they are divided, and the gradient of the result of `op` as that result.
/// "" for an op that does not have both.
std::string Division::placements_of_gradient(OpId op, OpId gradient,
                                             const TensorMarks& marks) const {
  const Op& made = graph_.op(op);
  const ValueId result = made.outputs.front();
  std::vector<std::string> inputs;
  bool reads_forward = false, reads_gradient = false, has_tensor = false, reads_weight = false;
  for (const ValueId input : graph_.op(gradient).inputs) {
    if (variable_after(graph_, input)) {
      reads_weight = true;
      inputs.push_back(spec_of(axes_of(input), "P()"));
      continue;
    }
    const bool is_operand = std::ranges::count(made.inputs, input) > 0;
    if (!is_operand && graph_.type(input).shape != graph_.type(result).shape) return "";
    reads_forward |= is_operand;
    reads_gradient |= !is_operand;
    const AxesOfDims axes = axes_of(is_operand ? input : result);
    for (const std::vector<std::string>& dim : axes)
      has_tensor |= std::ranges::count(dim, kTensorAxis) > 0;
    inputs.push_back(spec_of(axes, "P()"));
  }
  if (!reads_gradient || reads_forward == reads_weight) return "";
  std::string text = "[" + join(inputs, ", ") + "]";
  if (reads_weight) return text;
  // The gradient of the rows of a table is divided as the table is. Where it has a mark, that does.
  if (has_tensor) return text;
  if (marks.has(graph_.op(gradient).outputs.front())) return "";
  for (const ValueId input : made.inputs)
    if (const Variable* weight = variable_after(graph_, input))
      text += " -> [" + spec_of(axes_of(weight->value), "P()") + "]";
  return text;
}

std::vector<ValueId> Division::marked() const {
  std::vector<ValueId> values = graph_.inputs();
  for (const Variable& variable : graph_.variables())
    if (variable.origin.source.empty()) values.push_back(variable.value);
  const std::vector<std::string> space{std::string(kSpaceAxis)};
  for (DimClassIndex i : dims_.classes.indices())
    if (axes_[i.value()] == space && !has_input(graph_, dims_.classes[i]))
      values.push_back(dims_.classes[i].members.front().value);
  return values;
}

std::string Division::placement_of(ValueId value) const {
  return spec_of(axes_of(value));
}

std::string Division::placement_in_time(ValueId value) const {
  AxesOfDims axes = axes_of(value);
  for (size_t d = 0; d < axes.size(); ++d) {
    const DimClassIndex index = dims_.of_value[value.index][d];
    if (index.is_none() || !is_batch_[index.value()]) continue;
    axes[d].insert(axes[d].begin(), std::string(kMicroBatchAxis));
    break;
  }
  return spec_of(axes);
}

AxesOfDims Division::divided_by_data(ValueId value) const {
  const auto size_of_axis = [&](std::string_view axis) {
    const auto found = std::find(degrees_.names.begin(), degrees_.names.end(), axis);
    return degrees_.shape[static_cast<int>(found - degrees_.names.begin())];
  };
  const AxesOfDims axes = axes_of(value);
  std::vector<int64_t> divided(axes.size(), 1);
  for (size_t d = 0; d < axes.size(); ++d)
    for (const std::string& axis : axes[d]) divided[d] *= size_of_axis(axis);
  const std::string axis = degrees_.zero_axis();
  return divided_further(graph_.type(value).shape, axes, divided, {axis, size_of_axis(axis)});
}

/// The axes of a class divide the first of the dims that they may divide.
AxesOfDims Division::axes_of(ValueId value) const {
  AxesOfDims axes;
  for (DimClassIndex index : dims_.of_value[value.index]) {
    std::vector<std::string> of_class;
    if (!index.is_none()) of_class = axes_[index.value()];
    const bool is_used = std::find(axes.begin(), axes.end(), of_class) != axes.end();
    axes.push_back(is_used ? std::vector<std::string>{} : std::move(of_class));
  }
  return axes;
}

/// [@fsdp, @tp] {partial sum: mb, dp}: over the axis that does not divide the state, too, they are
/// summed once a step.
std::string Division::summed_over_micro_batches(const AxesOfDims& axes) const {
  std::vector<std::string> dims, summed{std::string(kMicroBatchAxis)};
  for (const std::vector<std::string>& dim : axes)
    dims.push_back(dim.empty() ? "*" : "@" + join(dim, "@"));
  for (const std::string& axis : degrees_.data_axes())
    if (axis != degrees_.zero_axis()) summed.push_back(axis);
  return "[" + join(dims, ", ") + "] {partial sum: " + join(summed, ", ") + "}";
}

}  // namespace tessera
