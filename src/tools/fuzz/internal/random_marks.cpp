// Random meshes and legal marks.
#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "compiler/rewrite/rewrite.h"
#include "ir/ops/operator_rule.h"
#include "tools/fuzz/internal/dice.h"
#include "tools/fuzz/internal/random_program.h"

namespace tessera::fuzz {
namespace {

class MarkMaker {
 public:
  MarkMaker(uint64_t seed, const Graph& graph, const Meshes& meshes, int64_t micro_batches)
      : dice_(seed, "marks"), graph_(graph), meshes_(meshes), micro_batches_(micro_batches) {
    if (meshes_.size() > 1) mark_stages();
    assignment_ = assign_meshes(graph_, meshes_, marks_);
    // Each variable shares one placement with its next value: only one of them is marked.
    group_.resize(graph.values().size());
    for (size_t i = 0; i < group_.size(); ++i) group_[i] = static_cast<int>(i);
    for (const Variable& variable : graph.variables())
      if (variable.next) join_groups(variable.value.index, variable.next->index);
    marked_.assign(group_.size(), false);
  }

  std::vector<Mark> make() {
    const double sources = dice_.pick(std::vector<double>{0.3, 0.6, 0.9});
    const double others = micro_batches_ > 1 ? dice_.pick(std::vector<double>{0.0, 0.0, 0.02})
                                             : dice_.pick(std::vector<double>{0.0, 0.05, 0.2});
    for (int i = 0; i < static_cast<int>(graph_.values().size()); ++i)
      if (dice_.chance(graph_.value({i}).producer.index < 0 ? sources : others)) mark_value({i});
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i)
      if (dice_.chance(others)) mark_op({i});
    dice_.shuffle(marks_);
    return marks_;
  }

 private:
  int group_of(int value) {
    while (group_[value] != value) value = group_[value];
    return value;
  }
  void join_groups(int a, int b) { group_[group_of(a)] = group_of(b); }

  const Mesh& mesh_of(const std::vector<int>& list, int index) const {
    return *meshes_[list[index]].mesh;
  }

  /// Assigns consecutive ops to consecutive stages, or to a view of one; some ops, inputs and
  /// variables are elsewhere.
  void mark_stages() {
    const int64_t count = stage_count(meshes_);
    const double elsewhere = dice_.pick(std::vector<double>{0.0, 0.0, 0.1, 0.4});
    const int forward =
        static_cast<int>(std::count_if(graph_.ops().begin(), graph_.ops().end(),
                                       [](const Op& op) { return op.role == Role::kForward; }));
    for (const Op& op : graph_.ops()) {
      const int64_t index = graph_.find_op(op.name)->index;
      if (op.role != Role::kForward || dice_.chance(0.2)) continue;
      const int64_t stage_index =
          dice_.chance(elsewhere) ? dice_.below(count) : index * count / std::max(forward, 1);
      const std::string& name = meshes_[std::min(stage_index, count - 1)].name;
      const auto view = std::ranges::find(meshes_, name, &NamedMesh::view_of);
      const bool is_on_view = view != meshes_.end() && dice_.chance(0.5);
      marks_.push_back(stage(op.name, is_on_view ? view->name : name, "case"));
    }
    for (const Value& value : graph_.values())
      if (value.producer.index < 0 && dice_.chance(elsewhere))
        marks_.push_back({Mark::Kind::kTensor, value.name, "", "case", dice_.pick(meshes_).name});
  }

  /// Assigns each axis to one of `count` lists, or to none.
  std::vector<std::vector<int>> scatter_axes(const Mesh& mesh, int count,
                                             const std::vector<bool>& allowed) {
    std::vector<std::vector<int>> lists(static_cast<size_t>(count));
    std::vector<int> axes;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) axes.push_back(axis);
    dice_.shuffle(axes);
    for (int axis : axes) {
      if (count == 0 || dice_.chance(0.25)) continue;
      const int64_t list = dice_.below(count);
      if (allowed[list]) lists[list].push_back(axis);
    }
    return lists;
  }

  void mark_value(ValueId id) {
    if (marked_[group_of(id.index)]) return;
    marked_[group_of(id.index)] = true;
    const int rank = graph_.type(id).shape.size();
    const Mesh& mesh = mesh_of(assignment_.values, id.index);
    const std::string& axis = dice_.pick(mesh.axes());
    if (may_be_partial(id) && dice_.chance(0.1)) {
      marks_.push_back(shard_tensor(graph_.value(id).name, axis + ": Partial(sum)", "case"));
      return;
    }
    const auto axes = scatter_axes(mesh, rank, std::vector<bool>(static_cast<size_t>(rank), true));
    marks_.push_back(shard_tensor(graph_.value(id).name, spec_text(mesh, axes), "case"));
  }

  /// Inputs and variables are never partial; nor is the next value of a variable.
  bool may_be_partial(ValueId id) const {
    if (graph_.value(id).producer.index < 0 || !is_float(graph_.type(id).dtype)) return false;
    return std::none_of(graph_.variables().begin(), graph_.variables().end(),
                        [&](const Variable& variable) { return variable.next == id; });
  }

  /// Marks the inputs of a linear set as partial on one axis, and the others as replicated.
  void mark_linear_op(const Mesh& mesh, const Op& op, const ShardingRule& rule) {
    const std::string& axis = dice_.pick(mesh.axes());
    const std::vector<int>& set = dice_.pick(rule.linear);
    std::vector<std::string> inputs;
    for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i)
      inputs.push_back(std::find(set.begin(), set.end(), i) != set.end() ? axis + ": Partial(sum)"
                                                                         : "P()");
    marks_.push_back(shard_op(op.name, "[" + join(inputs, ", ") + "]", "case"));
  }

  /// Does the mark mean the same sharding? A mark names only axes: where an input has windows or
  /// chunks, it may select other factors, of which one excludes another.
  static bool can_be_marked(const OpView& op, const ShardingRule& rule,
                            const OpSharding& sharding) {
    std::vector<DistAttr> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(input_attr(op, rule, sharding, static_cast<int>(i)));
      for (DimSharding& dim : inputs.back().dims) dim = {dim.axes};
    }
    try {
      sharding_for_inputs(op, rule, inputs);
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  /// Gives axes to factors, and writes them as placements of the inputs.
  void mark_op(OpId id) {
    const Op& op = graph_.op(id);
    if (op.inputs.empty()) return;
    const MeshPtr& mesh_pointer = meshes_[assignment_.ops[id.index]].mesh;
    const Mesh& mesh = *mesh_pointer;
    const OpView seen = view(graph_, op);
    const ShardingRule rule = rule_of(*seen.definition, seen);
    if (!rule.linear.empty() && is_float(seen.outputs[0].dtype) && dice_.chance(0.1)) {
      mark_linear_op(mesh, op, rule);
      return;
    }
    std::vector<bool> allowed;
    for (const Factor& factor : rule.factors) allowed.push_back(factor.kind != FactorKind::kWhole);
    OpSharding sharding = OpSharding::replicated(mesh_pointer, rule);
    const auto axes_of_factors = scatter_axes(mesh, static_cast<int>(rule.factors.size()), allowed);
    for (size_t f = 0; f < axes_of_factors.size(); ++f)
      if (sharding.may_divide(rule, static_cast<int>(f)))
        sharding.factor_axes[f] = axes_of_factors[f];
    if (!can_be_marked(seen, rule, sharding)) return;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      std::vector<std::vector<int>> axes;
      for (const DimSharding& dim : input_attr(seen, rule, sharding, static_cast<int>(i)).dims)
        axes.push_back(dim.axes);
      inputs.push_back(spec_text(mesh, axes));
    }
    marks_.push_back(shard_op(op.name, "[" + join(inputs, ", ") + "]", "case"));
  }

  Dice dice_;
  const Graph& graph_;
  const Meshes& meshes_;
  int64_t micro_batches_;
  MeshAssignment assignment_;
  std::vector<int> group_;
  std::vector<bool> marked_;  // by group
  std::vector<Mark> marks_;
};

/// "P(...)" with some whole dims open, and some divided ones in two chunks.
std::string refined(const std::string& spec, const Graph& graph, ValueId value, Dice& dice) {
  const Shape& shape = graph.type(value).shape;
  std::vector<std::string> entries =
      split_outside_brackets(std::string_view(spec).substr(2, spec.size() - 3), ',');
  for (size_t d = 0; d < entries.size(); ++d) {
    const bool is_whole = entries[d] == "None";
    const bool may_have_chunks =
        shape[static_cast<int>(d)] % 2 == 0 && !(d == 0 && graph.is_input(value));
    if (is_whole && dice.chance(0.3)) entries[d] = "?";
    if (!is_whole && may_have_chunks && dice.chance(0.3)) entries[d] = "2*" + entries[d];
  }
  return "P(" + join(entries, ", ") + ")";
}

/// Some marks on tensors get open dims and chunks, and some say how long copies live. The
/// dice have a seed of their own: the programs and marks of a seed stay what they are otherwise.
void refine(uint64_t seed, const Graph& graph, std::vector<Mark>& marks) {
  Dice dice(seed, "refined marks");
  if (!dice.chance(0.4)) return;
  std::vector<Mark> copies;
  for (Mark& mark : marks) {
    if (mark.kind != Mark::Kind::kTensor || !mark.placement.starts_with("P(")) continue;
    mark.placement = refined(mark.placement, graph, *graph.find_value(mark.pattern), dice);
    if (dice.chance(0.3))
      copies.push_back(copies_live_for(ReplicaLifetime::kPass, mark.pattern, "case"));
    else if (dice.chance(0.2))
      copies.push_back(copies_live_for(ReplicaLifetime::kStep, mark.pattern, "case"));
  }
  marks.insert(marks.end(), copies.begin(), copies.end());
}

/// Some axes of some meshes get weights. The dice serve nothing else, as in refine().
void add_weights(uint64_t seed, Meshes& meshes) {
  constexpr double kWeighted = 0.35;
  Dice dice(seed, "weights");
  if (!dice.chance(kWeighted)) return;
  for (NamedMesh& named : meshes) {
    const Mesh& mesh = *named.mesh;
    AxisWeights weights;
    for (int64_t parts : mesh.shape()) {
      weights.emplace_back();
      if (!dice.chance(0.6)) continue;
      for (int64_t i = 0; i < parts; ++i)
        weights.back().push_back(dice.between(1, dice.chance(0.1) ? 40 : 4));
    }
    named.mesh =
        std::make_shared<const Mesh>(mesh.shape(), mesh.axes(), mesh.ranks(), std::move(weights));
  }
}

}  // namespace

std::string spec_text(const Mesh& mesh, const std::vector<std::vector<int>>& dim_axes) {
  std::vector<std::string> entries;
  for (const auto& axes : dim_axes) {
    std::vector<std::string> names;
    for (int axis : axes) names.push_back("\"" + mesh.axes()[axis] + "\"");
    if (names.empty())
      entries.emplace_back("None");
    else
      entries.push_back(names.size() == 1 ? names.front() : "(" + join(names, ",") + ")");
  }
  return "P(" + join(entries, ", ") + ")";
}

Meshes random_meshes(uint64_t seed) {
  struct StageMesh {
    const char* name;
    const char* shape;
    Rank first;
  };
  static const std::vector<std::vector<StageMesh>> kSingle{
      {{"all", "x=1 y=2", 0}},     {{"all", "x=2", 0}},     {{"all", "x=2 y=2", 0}},
      {{"all", "x=2 y=2", 0}},     {{"all", "x=2 y=3", 0}}, {{"all", "x=1 y=5", 0}},
      {{"all", "x=2 y=2 z=2", 0}}, {{"all", "x=4", 0}},     {{"all", "x=3", 0}}};
  // Separate stages with other shapes and axes, and one that shares its ranks with the others.
  static const std::vector<std::vector<StageMesh>> kStages{
      {{"first", "x=2", 0}, {"last", "x=2", 2}},
      {{"first", "x=2 y=2", 0}, {"last", "x=2", 4}},
      {{"first", "x=3", 0}, {"last", "z=2", 3}},
      {{"first", "x=1", 0}, {"last", "x=1", 1}},
      {{"first", "x=2", 0}, {"last", "x=2 y=2", 0}},
      {{"first", "x=2", 0}, {"middle", "y=2", 2}, {"last", "x=2 y=2", 0}},
      {{"first", "x=2", 0}, {"middle", "x=3", 2}, {"last", "x=1", 5}}};
  Dice dice(seed, "mesh");
  Meshes meshes;
  for (const StageMesh& mesh : dice.pick(dice.chance(0.25) ? kStages : kSingle))
    meshes.push_back({mesh.name, consecutive_mesh(parse_mesh(mesh.shape), mesh.first)});
  add_weights(seed, meshes);
  return meshes;
}

std::vector<Mark> random_marks(uint64_t seed, const Graph& graph, const Meshes& meshes,
                               int64_t micro_batches) {
  std::vector<Mark> marks = MarkMaker(seed, graph, meshes, micro_batches).make();
  refine(seed, graph, marks);
  return marks;
}

/// In some cases a stage has another view: its ranks in one axis, or in two.
void sample_view(uint64_t seed, Meshes& meshes) {
  constexpr double kViewed = 0.15;
  Dice dice(seed, "view");
  if (!dice.chance(kViewed)) return;
  const NamedMesh& viewed = dice.pick(meshes);
  const int64_t ranks = viewed.mesh->size();
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= ranks; ++d)
    if (ranks % d == 0) divisors.push_back(d);
  const int64_t first = dice.pick(divisors);
  const Mesh shape({first, ranks / first}, {"x", "v"});
  NamedMesh view{"view", consecutive_mesh(shape, viewed.mesh->ranks().front())};
  view.view_of = viewed.name;
  meshes.push_back(std::move(view));
}

/// Chooses any schedule. Schedules that need several stages on the same ranks get such stages: in
/// turn, or in a V.
void sample_schedule(uint64_t seed, FuzzCase& result) {
  constexpr double kFolded = 0.4;
  Dice dice(seed, "schedule");
  std::vector<PipelineKind> kinds;
  for (const PipelineFacts& facts : pipeline_schedules()) kinds.push_back(facts.kind);
  result.schedule = dice.pick(kinds);
  if (!dice.chance(kFolded)) return;
  const bool v = result.schedule != PipelineKind::kInterleaved;
  const std::vector<Rank> ranks = v ? std::vector<Rank>{0, 1, 1, 0} : std::vector<Rank>{0, 1, 0, 1};
  result.meshes.clear();
  for (size_t i = 0; i < ranks.size(); ++i)
    result.meshes.push_back(
        {"part" + std::to_string(i), consecutive_mesh(parse_mesh("x=1"), ranks[i])});
}

/// Some cases compute on fake devices: all of them, or separately for stages that share no rank.
/// Ops with regions stay on hosts.
void sample_devices(uint64_t seed, FuzzCase& result) {
  constexpr double kOnDevices = 0.2;
  const auto has_regions = [](const Op& op) { return !op.regions.empty(); };
  Dice dice(seed, "devices");
  if (!dice.chance(kOnDevices) ||
      std::any_of(result.graph.ops().begin(), result.graph.ops().end(), has_regions))
    return;
  std::set<Rank> seen;
  bool are_apart = true;
  for (const NamedMesh& mesh : result.meshes)
    for (Rank rank : mesh.mesh->ranks()) are_apart = seen.insert(rank).second && are_apart;
  for (NamedMesh& mesh : result.meshes)
    if (!are_apart || result.meshes.size() == 1 || dice.chance(0.5))
      mesh.device = DeviceKind::kFake;
}

/// In every second case, most of the passes over the serial graph. Dead code is mostly left: it is
/// compiled and compared, too.
void sample_passes(uint64_t seed, FuzzCase& result) {
  Dice dice(seed, "passes");
  if (dice.chance(0.5)) return;
  for (const GraphPass& pass : graph_passes())
    if (dice.chance(pass.name == "dead-code" ? 0.3 : 0.8)) result.passes.emplace_back(pass.name);
}

/// Some axes of four ranks span two levels of links.
void sample_levels(uint64_t seed, FuzzCase& result) {
  Dice dice(seed, "levels");
  for (const NamedMesh& named : result.meshes)
    for (int axis = 0; axis < named.mesh->axis_count(); ++axis)
      if (named.mesh->shape()[axis] == 4 && dice.chance(0.7))
        result.levels[named.mesh->axes()[axis]] = {2, 2};
}

FuzzCase random_case(uint64_t seed) {
  constexpr int kAttempts = 50;
  constexpr double kMicroBatched = 0.15;
  FuzzCase result;
  result.seed = seed;
  Dice mode(seed, "mode");
  result.exact = mode.chance(0.5);
  if (mode.chance(kMicroBatched)) result.micro_batches = mode.between(2, 3);
  result.meshes = random_meshes(seed);
  if (result.micro_batches > 1) sample_schedule(seed, result);
  sample_view(seed, result.meshes);
  // When values leave the range of their mode, another program of the same seed is tried.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RandomProgram program = random_program(random_key(seed, "attempt " + std::to_string(attempt)),
                                           result.exact, result.micro_batches);
    result.graph = std::move(program.graph);
    result.fills = std::move(program.fills);
    if (result.exact ? in_exact_subset(result) : is_bounded(result)) {
      result.marks = random_marks(seed, result.graph, result.meshes, result.micro_batches);
      sample_devices(seed, result);
      if (Dice dice(seed, "chunks"); dice.chance(0.9)) result.chunks = dice.between(2, 3);
      sample_passes(seed, result);
      sample_levels(seed, result);
      return result;
    }
  }
  throw InternalError("no program of seed " + std::to_string(seed) + " stays in its range");
}

}  // namespace tessera::fuzz
