#include "planner/presets/presets.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "compiler/schedule/named_orders.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/dim_classes.h"
#include "planner/presets/internal/gradients.h"
#include "planner/presets/internal/zero.h"
#include "planner/presets/roles.h"
#include "planner/presets/stages.h"
#include "sharding/explicit/name_patterns.h"
#include "sharding/explicit/stage_patterns.h"

namespace tessera {
namespace {

/// A preset whose axes have sizes above 1.
struct Degrees {
  std::vector<std::string> names;
  Shape shape;
  int64_t stages = 1;
  std::string text;

  bool has(std::string_view axis) const {
    return std::find(names.begin(), names.end(), axis) != names.end();
  }
};

int64_t rest_of(const Preset& preset, std::optional<int> ranks) {
  int64_t others = preset.stages;
  for (const PresetAxis& axis : preset.axes) others *= axis.size.value_or(1);
  if (!ranks)
    refuse_config(
        "preset '" + preset.text + "' has an axis of the size \"rest\", and no number of ranks",
        "the rest is the number of ranks divided by the other degrees, " + std::to_string(others),
        "give the number with --ranks, or the size of the axis");
  if (*ranks % others != 0)
    refuse_config("preset '" + preset.text + "' does not fit " + counted(*ranks, "rank"),
                  "the other degrees make " + std::to_string(others) + ", which does not divide " +
                      std::to_string(*ranks),
                  "run with a multiple of " + counted(others, "rank") + ", or change a degree");
  return *ranks / others;
}

Degrees degrees_of(const Preset& preset, std::optional<int> ranks) {
  Degrees degrees;
  degrees.stages = preset.stages;
  degrees.text = preset.text;
  for (const PresetAxis& axis : preset.axes) {
    const int64_t size = axis.size ? *axis.size : rest_of(preset, ranks);
    if (size == 1) continue;
    degrees.names.emplace_back(axis.name);
    degrees.shape.push_back(size);
  }
  return degrees;
}

/// Marks on tensors, one for all of equal placements.
class TensorMarks {
 public:
  explicit TensorMarks(const Graph& graph) : graph_(graph) {}

  /// "" says nothing.
  void add(ValueId value, const std::string& placement) {
    if (placement.empty()) return;
    if (!names_.contains(placement)) placements_.push_back(placement);
    names_[placement].push_back(graph_.value(value).name);
  }
  /// Copies of the value in another placement live for a pass.
  void free_copies(ValueId value) { freed_.push_back(graph_.value(value).name); }

  std::vector<Mark> all(const std::string& origin) const {
    std::vector<Mark> marks;
    for (const std::string& placement : placements_)
      for (std::string& pattern : to_patterns(names_.at(placement)))
        marks.push_back(shard_tensor(std::move(pattern), placement, origin));
    for (std::string& pattern : to_patterns(freed_)) {
      marks.push_back(shard_tensor(std::move(pattern), "", origin));
      marks.back().copies = ReplicaLifetime::kPass;
    }
    return marks;
  }

 private:
  const Graph& graph_;
  std::vector<std::string> freed_;
  std::vector<std::string> placements_;  // in the order of the first tensor
  std::map<std::string, std::vector<std::string>> names_;
};

/// The axis that divides each class of dims.
class Division {
 public:
  Division(const Graph& graph, const Degrees& degrees)
      : graph_(graph),
        degrees_(degrees),
        dims_(dim_classes_of(graph)),
        axes_(dims_.classes.size()),
        is_batch_(dims_.classes.size()) {
    for (DimClassIndex index : batch_classes(graph, dims_)) is_batch_[index.value()] = true;
    if (degrees.has(kDataAxis)) divide(batch_classes(graph, dims_), kDataAxis);
    if (degrees.has(kSpaceAxis)) divide(space(degrees), kSpaceAxis);
    if (degrees.has(kTensorAxis)) divide(tensor(degrees), kTensorAxis);
  }

  /// One mark for all tensors of equal placements.
  ///   gradients  of the parameters whose sums over micro-batches level 2 divides
  std::vector<Mark> marks(const std::string& origin, int zero, const Gradients& gradients) const {
    TensorMarks marks(graph_);
    for (ValueId value : marked())
      if (zero == 0 || !is_parameter(value)) marks.add(value, placement_of(value));
    if (zero > 0) divide_state(zero, gradients, marks, [](ValueId) { return true; });
    return marks.all(origin);
  }

  bool is_parameter(ValueId value) const {
    const Variable* variable = graph_.variable_of(value);
    return variable && variable->trainable;
  }

  /// Divides the state of the optimizer over kDataAxis, too, and so the sums of gradients over
  /// micro-batches from level 2 on, and the parameters at level 3.
  ///   gradients  those whose sums are divided
  ///   is_wanted  says of which parameters
  template <class IsWanted>
  void divide_state(int zero, const Gradients& gradients, TensorMarks& marks,
                    const IsWanted& is_wanted) const {
    std::map<std::string, std::vector<ValueId>> states;  // by the name of their parameter
    for (const Variable& variable : graph_.variables())
      if (!variable.origin.source.empty()) states[variable.origin.source].push_back(variable.value);
    for (const Variable& variable : graph_.variables()) {
      if (!variable.trainable || !is_wanted(variable.value)) continue;
      const AxesOfDims whole = axes_of(variable.value), parts = divided_by_data(variable.value);
      const bool at_rest = zero == 3 && parts != whole;
      marks.add(variable.value, spec_of(at_rest ? parts : whole, "P()"));
      if (at_rest) marks.free_copies(variable.value);
      const auto found = gradients.find(graph_.value(variable.value).name);
      if (parts != whole && found != gradients.end())
        for (const ValueId gradient : found->second)
          marks.add(gradient, summed_over_micro_batches(parts));
      for (ValueId state : states[graph_.value(variable.value).name])
        if (graph_.type(state).shape == graph_.type(variable.value).shape)
          marks.add(state, spec_of(parts, "P()"));
    }
  }

  /// Inputs, then parameters, then the first value of each class of space that no input has.
  std::vector<ValueId> marked() const {
    std::vector<ValueId> values = graph_.inputs();
    for (const Variable& variable : graph_.variables())
      if (variable.origin.source.empty()) values.push_back(variable.value);
    for (DimClassIndex i : dims_.classes.indices())
      if (axes_[i.value()] == kSpaceAxis && !has_input(graph_, dims_.classes[i]))
        values.push_back(dims_.classes[i].members.front().value);
    return values;
  }

  /// P("dp", None, "tp"); "" when nothing divides it.
  std::string placement_of(ValueId value) const { return spec_of(axes_of(value)); }
  /// The same of a result, whose rows micro-batches divide first: P(("mb", "dp"), None, "tp").
  std::string placement_in_time(ValueId value) const {
    AxesOfDims axes = axes_of(value);
    for (size_t d = 0; d < axes.size(); ++d) {
      const DimClassIndex index = dims_.of_value[value.index][d];
      if (index.is_none() || !is_batch_[index.value()]) continue;
      axes[d].insert(axes[d].begin(), std::string(kMicroBatchAxis));
      break;
    }
    return spec_of(axes);
  }

 private:
  AxesOfDims divided_by_data(ValueId value) const {
    const auto size_of = [&](std::string_view axis) {
      const auto found = std::find(degrees_.names.begin(), degrees_.names.end(), axis);
      return degrees_.shape[static_cast<int>(found - degrees_.names.begin())];
    };
    const AxesOfDims axes = axes_of(value);
    std::vector<int64_t> divided(axes.size(), 1);
    for (size_t d = 0; d < axes.size(); ++d)
      for (const std::string& axis : axes[d]) divided[d] *= size_of(axis);
    return divided_further(graph_.type(value).shape, axes, divided,
                           {kDataAxis, size_of(kDataAxis)});
  }

  void divide(const std::vector<DimClassIndex>& classes, std::string_view axis) {
    for (DimClassIndex index : classes) axes_[index.value()] = axis;
  }

  std::vector<DimClassIndex> space(const Degrees& degrees) const {
    std::vector<DimClassIndex> found = space_classes(graph_, dims_);
    if (share_of_products(dims_, found) < kSearchPolicy.share_of_space)
      refuse_config(
          "preset '" + degrees.text + "': sp divides too little of this network",
          "sp divides rows of images or positions of a sequence, and less than half of the "
          "products and convolutions here keep them",
          "use dp or tp");
    return found;
  }

  std::vector<DimClassIndex> tensor(const Degrees& degrees) const {
    std::vector<DimClassIndex> found = tensor_classes(graph_, dims_);
    if (found.empty())
      refuse_config("preset '" + degrees.text + "': tp divides no weight of this network",
                    "dividing any of them would exchange more than it saves", "use dp or pp");
    return found;
  }

  std::string_view axis_of(DimClassIndex index) const {
    return index.is_none() ? "" : axes_[index.value()];
  }
  /// An axis divides the first of the dims that it may divide.
  AxesOfDims axes_of(ValueId value) const {
    AxesOfDims axes;
    for (DimClassIndex index : dims_.of_value[value.index]) {
      axes.emplace_back();
      const std::string axis(axis_of(index));
      const std::vector<std::string> one{axis};
      if (!axis.empty() && std::find(axes.begin(), axes.end(), one) == axes.end())
        axes.back() = one;
    }
    return axes;
  }
  static std::string spec_of(const AxesOfDims& axes, const std::string& undivided = "") {
    std::vector<std::string> parts;
    for (const std::vector<std::string>& dim : axes) {
      std::vector<std::string> quoted;
      for (const std::string& axis : dim) quoted.push_back('"' + axis + '"');
      parts.push_back(dim.empty()       ? "None"
                      : dim.size() == 1 ? quoted[0]
                                        : "(" + join(quoted, ", ") + ")");
    }
    while (!parts.empty() && parts.back() == "None") parts.pop_back();
    return parts.empty() ? undivided : "P(" + join(parts, ", ") + ")";
  }

  /// [@dp, @tp] {partial sum: mb}
  static std::string summed_over_micro_batches(const AxesOfDims& axes) {
    std::vector<std::string> dims;
    for (const std::vector<std::string>& dim : axes)
      dims.push_back(dim.empty() ? "*" : "@" + join(dim, "@"));
    return "[" + join(dims, ", ") + "] {partial sum: " + std::string(kMicroBatchAxis) + "}";
  }

  const Graph& graph_;
  const Degrees degrees_;
  DimClasses dims_;
  std::vector<std::string_view> axes_;  // by class; "": none
  std::vector<bool> is_batch_;          // by class
};

/// Stages that share the ranks of one position of the pipeline.
enum class Sharing { kNone, kInTurn, kInV };

Sharing sharing_of(PipelineKind schedule) {
  switch (schedule) {
    case PipelineKind::kInterleaved: return Sharing::kInTurn;
    case PipelineKind::kZeroBubbleV:
    case PipelineKind::kVHalf:
    case PipelineKind::kVMin: return Sharing::kInV;
    default: return Sharing::kNone;
  }
}

/// The position in the pipeline of each stage: 0 1 0 1 in turn, 0 1 1 0 in a V.
std::vector<int64_t> positions_of_stages(int64_t positions, Sharing sharing) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < positions; ++i) list.push_back(i);
  if (sharing == Sharing::kNone) return list;
  for (int64_t i = 0; i < positions; ++i)
    list.push_back(sharing == Sharing::kInTurn ? i : positions - 1 - i);
  return list;
}

Meshes meshes_of(const Degrees& degrees, Sharing sharing) {
  if (degrees.stages == 1) {
    if (degrees.names.empty()) return {};
    return one_mesh(std::make_shared<const Mesh>(degrees.shape, degrees.names));
  }
  const bool has_axes = !degrees.names.empty();
  const Shape shape = has_axes ? degrees.shape : Shape{1};
  const std::vector<std::string> names =
      has_axes ? degrees.names : std::vector<std::string>{std::string(kDataAxis)};
  const auto size = static_cast<int>(element_count(shape));
  Meshes meshes;
  for (int64_t position : positions_of_stages(degrees.stages, sharing)) {
    std::vector<Rank> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(static_cast<int>(position) * size + i);
    meshes.push_back({"stage" + std::to_string(meshes.size()),
                      std::make_shared<const Mesh>(shape, names, std::move(ranks))});
  }
  return meshes;
}

/// The largest divisor of the rows of the batch of at most `aim` that is a multiple of `parts`;
/// `aim` where these do not divide the rows.
int64_t micro_batches_for(const Graph& graph, int64_t aim, int64_t parts) {
  int64_t rows = 1;
  for (ValueId input : graph.inputs())
    if (graph.type(input).shape.size() > 0) rows = graph.type(input).shape[0];
  if (rows % parts != 0) return aim;  // refused when it is compiled
  while (rows % aim != 0) aim -= parts;
  return aim;
}

/// The degrees of the axes of a mesh.
Degrees degrees_on(const Mesh& mesh) {
  Degrees degrees;
  degrees.text = to_text(mesh);
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.shape()[axis] == 1) continue;
    degrees.names.push_back(mesh.axes()[axis]);
    degrees.shape.push_back(mesh.shape()[axis]);
  }
  return degrees;
}

/// The results of forward ops that read what another stage makes.
std::vector<ValueId> first_results(const Graph& graph, const MeshAssignment& stages) {
  std::vector<ValueId> values;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    const Op& op = graph.op({i});
    if (op.role != Role::kForward) continue;
    const bool receives = std::ranges::any_of(op.inputs, [&](ValueId input) {
      const OpId producer = graph.value(input).producer;
      return producer.index >= 0 && stages.ops[producer.index] != stages.ops[i];
    });
    if (receives) values.insert(values.end(), op.outputs.begin(), op.outputs.end());
  }
  return values;
}

/// The stage of each forward op.
std::vector<int> stages_of(const Preset& preset, const Graph& graph, int stages) {
  const auto boundaries = static_cast<int>(preset.boundaries.size());
  if (boundaries == 0) return even_stages(graph, stages);
  if (boundaries != stages - 1)
    throw UserError("preset " + preset.text + " has boundaries of " +
                        counted(boundaries + 1, "stage") + ", not of " + std::to_string(stages),
                    "a boundary is between two stages, and all of them are listed",
                    "list one less than the stages, or ask for " + counted(boundaries + 1, "stage"),
                    ExitCode::kBadConfig);
  return stages_after(graph, preset.boundaries);
}

/// Says what the meshes need that have ops with wanted devices.
///   stages  of each forward op; empty: all are on the first mesh
void add_hardware(const Preset& preset, const Graph& graph, const std::vector<int>& stages,
                  Meshes& meshes) {
  for (const StageHardware& wanted : preset.hardware) {
    const std::vector<bool> is_named =
        ops_named(graph, wanted.name, std::string(kStageHardwareKey));
    for (size_t i = 0; i < is_named.size(); ++i) {
      if (!is_named[i]) continue;
      NamedMesh& mesh = meshes[stages.empty() ? 0 : stages[i]];
      if (!mesh.hardware.empty() && mesh.hardware != wanted.hardware)
        refuse_config(
            "the stage " + mesh.name + " of preset " + preset.text + " has to be on '" +
                mesh.hardware + "' and on '" + wanted.hardware + "'",
            std::string(kStageHardwareKey) + "=" + to_text(preset.hardware) +
                " names ops that are in one stage",
            "use more stages, boundaries between these ops, or one kind of device for both");
      mesh.hardware = wanted.hardware;
    }
  }
}

}  // namespace

std::vector<Mark> stage_marks(const Graph& graph, const Meshes& meshes,
                              const std::vector<int>& stages, const std::string& origin) {
  std::vector<std::string> names, stage_names;
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kForward) continue;
    stage_names.push_back(meshes[stages[names.size()]].name);
    names.push_back(op.name);
  }
  std::vector<Mark> marks;
  for (const PatternDecision& decision : stage_patterns(names, stage_names))
    for (const std::string& pattern : decision.names)
      marks.push_back(stage(pattern, decision.text, origin));
  return marks;
}

Plan staged_plan(const Graph& graph, const std::vector<int>& stages, Plan decisions, int zero) {
  const std::string origin = "stages " + decisions.name;
  std::vector<Mark> marks = stage_marks(graph, decisions.meshes, stages, origin);
  const MeshAssignment assigned = assign_meshes(graph, decisions.meshes, marks);
  std::map<std::string, Division> divisions;  // by the names of the axes, and for zero their sizes
  const auto division_of = [&](int stage) -> const Division& {
    const Degrees degrees = degrees_on(*decisions.meshes[stage].mesh);
    std::string key = join(degrees.names, ",");
    if (zero > 0)
      for (const int64_t size : degrees.shape) key += " " + std::to_string(size);
    return divisions.try_emplace(key, graph, degrees).first->second;
  };
  // Of zero the search divides the state alone.
  ensure(zero <= 1, "stages divide the state of the optimizer, and no gradients or parameters");
  TensorMarks tensors(graph);
  for (int stage = 0; stage < std::ssize(decisions.meshes); ++stage) {
    const Division& division = division_of(stage);
    const auto is_here = [&](ValueId value) { return assigned.values[value.index] == stage; };
    const bool divides_state = zero > 0 && degrees_on(*decisions.meshes[stage].mesh).has(kDataAxis);
    for (ValueId value : division.marked())
      if (is_here(value) && !(divides_state && division.is_parameter(value)))
        tensors.add(value, division.placement_of(value));
    if (divides_state) division.divide_state(zero, {}, tensors, is_here);
  }
  const Mesh& first = *decisions.meshes.front().mesh;
  const bool are_alike = std::ranges::all_of(decisions.meshes, [&](const NamedMesh& mesh) {
    return mesh.mesh->axes() == first.axes() && mesh.mesh->shape() == first.shape();
  });
  if (!are_alike)
    for (ValueId value : first_results(graph, assigned)) {
      const Division& division = division_of(assigned.values[value.index]);
      tensors.add(value, decisions.micro_batches > 1 ? division.placement_in_time(value)
                                                     : division.placement_of(value));
    }
  for (Mark& mark : tensors.all(origin)) marks.push_back(std::move(mark));
  decisions.marks.insert(decisions.marks.begin(), marks.begin(), marks.end());
  return decisions;
}

Plan preset_plan(const Preset& preset, const Graph& graph, std::optional<int> ranks) {
  const Degrees degrees = degrees_of(preset, ranks);
  const std::string origin = "preset " + preset.text;
  if (preset.zero > 0 && !degrees.has(kDataAxis))
    refuse_config(
        "preset '" + preset.text + "' has zero=" + std::to_string(preset.zero) + " without dp",
        "zero divides what the ranks of the axis dp would all keep",
        "give a degree dp of at least 2, or remove zero");
  Plan plan = preset.decisions;
  plan.name = preset.text;
  plan.meshes = meshes_of(degrees, sharing_of(plan.schedule));
  if (!preset.decisions.meshes.empty()) {  // they say a device
    if (plan.meshes.empty()) plan.meshes = plan.placed();
    for (NamedMesh& mesh : plan.meshes) mesh.device = preset.decisions.meshes.front().device;
  }
  if (preset.chooses_micro_batches)
    plan.micro_batches = micro_batches_for(graph, plan.micro_batches, plan.accumulate);
  std::vector<Mark> marks;
  std::vector<int> stages;
  if (plan.meshes.size() > 1 || !preset.boundaries.empty()) {
    stages = stages_of(preset, graph, static_cast<int>(std::max<size_t>(1, plan.meshes.size())));
    marks = stage_marks(graph, plan.meshes, stages, origin);
  }
  if (!preset.hardware.empty()) {
    plan.meshes = plan.placed();
    add_hardware(preset, graph, stages, plan.meshes);
  }
  Gradients gradients;
  if (preset.zero >= 2)
    gradients = gradients_of(graph, assign_meshes(graph, plan.placed(), marks).ops);
  for (Mark& mark : Division(graph, degrees).marks(origin, preset.zero, gradients))
    marks.push_back(std::move(mark));
  plan.marks.insert(plan.marks.begin(), marks.begin(), marks.end());
  return plan;
}

}  // namespace tessera
