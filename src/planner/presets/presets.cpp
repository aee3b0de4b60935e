#include "planner/presets/presets.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "compiler/schedule/named_orders.h"
#include "planner/presets/internal/division.h"
#include "planner/presets/internal/gradients.h"
#include "planner/presets/stages.h"
#include "sharding/explicit/stage_patterns.h"

namespace tessera {
namespace {

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

/// The stages of each position of the pipeline.
int64_t chunks_of(const Preset& preset) {
  constexpr int64_t kTwo = 2;
  const Sharing sharing = sharing_of(preset.decisions.schedule);
  if (preset.chunks > 0 && preset.chunks != kTwo && sharing == Sharing::kInV)
    refuse_config("preset '" + preset.text + "' has " + counted(preset.chunks, "chunk"),
                  "schedule " + std::string(to_text(preset.decisions.schedule)) +
                      " has two stages on each device",
                  "remove " + std::string(kChunksKey) + ", or use schedule interleaved");
  if (preset.chunks > 1 && sharing == Sharing::kNone)
    refuse_config("preset '" + preset.text + "' has " + counted(preset.chunks, "chunk"),
                  "schedule " + std::string(to_text(preset.decisions.schedule)) +
                      " has one stage on each device",
                  "use schedule interleaved, or remove " + std::string(kChunksKey));
  if (sharing == Sharing::kNone) return 1;
  return preset.chunks > 0 ? preset.chunks : kTwo;
}

/// The position in the pipeline of each stage: 0 1 0 1 in turn, 0 1 1 0 in a V.
std::vector<int64_t> positions_of_stages(int64_t positions, Sharing sharing, int64_t chunks) {
  std::vector<int64_t> list;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t i = 0; i < positions; ++i)
      list.push_back(chunk == 1 && sharing == Sharing::kInV ? positions - 1 - i : i);
  return list;
}

Meshes meshes_of(const Degrees& degrees, Sharing sharing, int64_t chunks) {
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
  for (int64_t position : positions_of_stages(degrees.stages, sharing, chunks)) {
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
  if (!preset.stage_layers.empty()) return stages_of_layers(graph, preset.stage_layers, stages);
  if (preset.has_equal_layers) return stages_of_layers(graph, {}, stages);
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
    const bool divides_state =
        zero > 0 && !degrees_on(*decisions.meshes[stage].mesh).zero_axis().empty();
    for (ValueId value : division.marked())
      if (is_here(value) && !(divides_state && division.is_parameter(value)))
        tensors.add(value, division.placement_of(value));
    if (divides_state)
      division.divide_state({.zero = zero, .divides_masters = true}, {}, tensors, is_here);
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
  if (preset.zero > 0 && degrees.zero_axis().empty())
    refuse_config(
        "preset '" + preset.text + "' has zero=" + std::to_string(preset.zero) + " without dp",
        "zero divides what the ranks of the axis fsdp, or dp without it, would all keep",
        "give a degree dp or fsdp of at least 2, or remove zero");
  if (preset.sequence_parallel && !degrees.has(kTensorAxis))
    refuse_config("preset '" + preset.text + "' has " + std::string(kSequenceKey) + " without tp",
                  "it divides the positions of sequences over tp, where tp does not divide weights",
                  "give a degree tp of at least 2, or use the degree sp");
  Plan plan = preset.decisions;
  plan.name = preset.text;
  plan.meshes = meshes_of(degrees, sharing_of(plan.schedule), chunks_of(preset));
  if (!preset.decisions.meshes.empty()) {  // they say a device
    if (plan.meshes.empty()) plan.meshes = plan.placed();
    for (NamedMesh& mesh : plan.meshes) mesh.device = preset.decisions.meshes.front().device;
  }
  if (preset.chooses_micro_batches)
    plan.micro_batches = micro_batches_for(graph, plan.micro_batches, plan.accumulate);
  std::vector<Mark> marks;
  std::vector<int> stages;
  if (plan.meshes.size() > 1 || !preset.boundaries.empty() || !preset.stage_layers.empty()) {
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
  const FurtherDivision further{
      .zero = preset.zero,
      .divides_masters = preset.zero > 0 && preset.master_weights == MasterWeights::kDivided,
      .divides_positions = preset.sequence_parallel};
  for (Mark& mark : Division(graph, degrees).marks(origin, further, gradients))
    marks.push_back(std::move(mark));
  plan.marks.insert(plan.marks.begin(), marks.begin(), marks.end());
  return plan;
}

}  // namespace tessera
