#include "tools/fuzz/internal/shrink.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "ir/ops/interpreter.h"
#include "tools/fuzz/internal/random_program.h"

namespace tessera::fuzz {
namespace {

/// The parts that a smaller graph leaves out.
struct Removal {
  std::set<int> ops;      // by index
  std::set<int> outputs;  // by index in the list
  std::set<int> nexts;    // by variable: it never changes
};

/// A range that holds the values of a removed result.
Fill range_of(const ReferenceTensor& tensor) {
  Fill fill{true, 0, 0};
  if (tensor.values.empty()) return fill;
  const auto [low, high] = std::minmax_element(tensor.values.begin(), tensor.values.end());
  fill.low = *low;
  fill.high = *high;
  fill.whole = std::all_of(tensor.values.begin(), tensor.values.end(),
                           [](double value) { return value == std::floor(value); });
  return fill;
}

ReferenceValues first_step(const FuzzCase& given) {
  ReferenceValues state = initial_variables(given.graph, given.seed);
  for (auto& [name, value] : state)
    if (given.fills.contains(name)) value = to_reference(sampled(given, name, value.type, 0));
  for (ValueId input : given.graph.inputs()) {
    const std::string& name = given.graph.value(input).name;
    state[name] = to_reference(sampled(given, name, given.graph.type(input), 0));
  }
  return interpret(given.graph, state);
}

/// Writes the graph again without the removed parts, and without the parts that are then unused.
class Rebuild {
 public:
  /// `placements` are those of the values. Marks keep them on the inputs that replace values; when
  /// empty, they are left open.
  Rebuild(const FuzzCase& given, const ReferenceValues& values, const Removal& removal,
          const std::vector<DistAttr>& placements)
      : given_(given),
        old_(given.graph),
        values_(values),
        removal_(removal),
        placements_(placements),
        id_of_(old_.values().size()) {}

  FuzzCase run() {
    find_needed();
    for (ValueId input : old_.inputs())
      if (needed(input)) add_input(input);
    for (const Variable& variable : old_.variables())
      if (needed(variable.value))
        id(variable.value) =
            graph_.add_variable(name(variable.value), old_.type(variable.value),
                                variable.initializer, variable.trainable, variable.origin);
    for (int i = 0; i < static_cast<int>(old_.ops().size()); ++i) add_op(i);
    for (size_t i = 0; i < old_.outputs().size(); ++i)
      if (!removal_.outputs.contains(static_cast<int>(i)))
        graph_.add_output(old_.outputs()[i].first, id(old_.outputs()[i].second));
    for (size_t v = 0; v < old_.variables().size(); ++v)
      if (keeps_next(v))
        graph_.set_next(id(old_.variables()[v].value), id(*old_.variables()[v].next));
    return finish();
  }

 private:
  const std::string& name(ValueId value) const { return old_.value(value).name; }
  bool needed(ValueId value) const { return needed_[value.index]; }
  ValueId& id(ValueId value) { return id_of_[value.index]; }
  bool keeps_next(size_t variable) const {
    return old_.variables()[variable].next && !removal_.nexts.contains(static_cast<int>(variable));
  }

  /// Finds the values that a remaining op, an output or a variable reads. An op remains until it is
  /// removed, whether or not its result is used, because the failure may be in it.
  void find_needed() {
    needed_.assign(old_.values().size(), false);
    const auto need = [&](ValueId value) { needed_[value.index] = true; };
    for (size_t i = 0; i < old_.outputs().size(); ++i)
      if (!removal_.outputs.contains(static_cast<int>(i))) need(old_.outputs()[i].second);
    for (size_t v = 0; v < old_.variables().size(); ++v) {
      if (!keeps_next(v)) continue;
      need(old_.variables()[v].value);
      need(*old_.variables()[v].next);
    }
    for (int i = 0; i < static_cast<int>(old_.ops().size()); ++i)
      if (!removal_.ops.contains(i))
        for (ValueId input : old_.op({i}).inputs) need(input);
  }

  void add_input(ValueId value) {
    id(value) = graph_.add_input(name(value), old_.type(value));
    const auto found = given_.fills.find(name(value));
    fills_[name(value)] =
        found != given_.fills.end() ? found->second : range_of(values_.at(name(value)));
  }

  /// Adds an input instead of a result, with the placement of the result.
  void replace(ValueId value) {
    add_input(value);
    if (placements_.empty()) return;
    const DistAttr& attr = placements_[value.index];
    std::vector<std::vector<int>> axes;
    for (const DimSharding& dim : attr.dims) axes.push_back(dim.axes);
    if (std::any_of(axes.begin(), axes.end(), [](const auto& list) { return !list.empty(); }))
      added_marks_.push_back(shard_tensor(name(value), spec_text(*attr.mesh, axes), "case"));
  }

  void add_op(int index) {
    const Op& op = old_.op({index});
    if (removal_.ops.contains(index)) {
      for (ValueId output : op.outputs)
        if (needed(output)) replace(output);
      return;
    }
    std::vector<ValueId> inputs;
    std::vector<TensorType> types;
    for (ValueId input : op.inputs) inputs.push_back(id(input));
    for (ValueId output : op.outputs) types.push_back(old_.type(output));
    const OpId added = graph_.add_op(op.name, op.kind, op.attributes, inputs, types, op.role,
                                     op.origin, op.regions);
    for (size_t i = 0; i < op.outputs.size(); ++i) id(op.outputs[i]) = graph_.op(added).outputs[i];
  }

  FuzzCase finish() {
    FuzzCase result = given_;
    for (const Variable& variable : graph_.variables()) {
      const auto found = given_.fills.find(graph_.value(variable.value).name);
      if (found != given_.fills.end()) fills_.insert(*found);
    }
    std::erase_if(result.marks, [&](const Mark& mark) {
      return mark.kind == Mark::Kind::kTensor ? !graph_.find_value(mark.pattern)
                                              : !graph_.find_op(mark.pattern);
    });
    for (const Mark& mark : added_marks_) {
      std::erase_if(result.marks, [&](const Mark& other) {
        return other.kind == mark.kind && other.pattern == mark.pattern && other.mesh.empty();
      });
      result.marks.push_back(mark);
    }
    result.fills = std::move(fills_);
    result.graph = std::move(graph_);
    return result;
  }

  const FuzzCase& given_;
  const Graph& old_;
  const ReferenceValues& values_;
  const Removal& removal_;
  const std::vector<DistAttr>& placements_;
  std::vector<Mark> added_marks_;
  std::vector<bool> needed_;
  std::vector<ValueId> id_of_;  // by old value: its id in the new graph
  Graph graph_;
  std::map<std::string, Fill> fills_;
};

/// The part of a failure that must not change while a case shrinks: the first words of the message.
std::string kind_of(const CaseFailure& failure) {
  return failure.stage == CaseFailure::Stage::kCompare
             ? ""
             : failure.text.substr(0, failure.text.find('\''));
}

class Shrink {
 public:
  Shrink(FuzzCase failing, const CaseFailure& failure, const CaseFaults& faults, int runs)
      : best_(std::move(failing)),
        stage_(failure.stage),
        kind_(kind_of(failure)),
        faults_(faults),
        runs_(runs) {}

  FuzzCase run() {
    bool smaller = true;
    while (smaller && runs_ > 0) {
      smaller = false;
      smaller |= remove_ops();
      smaller |= remove_marks();
      smaller |= remove_ends();
      smaller |= drop_meshes();
      smaller |= equal_parts();
      smaller |= shrink_meshes();
      smaller |= on_hosts();
      smaller |= one_step();
      smaller |= plain_schedule();
      smaller |= no_chunks();
      smaller |= no_levels();
      smaller |= fewer_passes();
      smaller |= one_micro_batch();
    }
    return std::move(best_);
  }

 private:
  bool try_case(FuzzCase candidate) {
    if (runs_-- <= 0 || !fails_alike(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool fails_alike(const FuzzCase& candidate) const {
    try {
      if (!(candidate.exact ? in_exact_subset(candidate) : is_bounded(candidate))) return false;
    } catch (const std::exception&) {
      return false;  // the interpreter itself cannot run it
    }
    const auto failure = run_case(candidate, faults_);
    return failure && failure->stage == stage_ && kind_of(*failure) == kind_;
  }

  bool remove(const Removal& removal) {
    const ReferenceValues values = first_step(best_);
    if (try_case(Rebuild(best_, values, removal, {}).run())) return true;
    if (removal.ops.empty()) return false;
    return try_case(Rebuild(best_, values, removal, placements()).run());
  }

  /// The present placements of the values; empty when propagation fails.
  std::vector<DistAttr> placements() const {
    try {
      return propagate(best_.graph, best_.meshes, best_.marks, faults_.rules).values;
    } catch (const std::exception&) {
      return {};
    }
  }

  /// Removes runs of ops, the longest first, the last ones first.
  bool remove_ops() {
    bool smaller = false;
    for (int length = std::max<int>(static_cast<int>(best_.graph.ops().size()) / 2, 1); length >= 1;
         length /= 2)
      for (int end = static_cast<int>(best_.graph.ops().size()); end > 0; end -= length) {
        Removal removal;
        for (int i = std::max(end - length, 0);
             i < std::min(end, static_cast<int>(best_.graph.ops().size())); ++i)
          removal.ops.insert(i);
        if (!removal.ops.empty()) smaller |= remove(removal);
      }
    return smaller;
  }

  bool remove_marks() {
    bool smaller = false;
    for (size_t i = best_.marks.size(); i-- > 0;) {
      FuzzCase candidate = best_;
      candidate.marks.erase(candidate.marks.begin() + static_cast<std::ptrdiff_t>(i));
      smaller |= try_case(std::move(candidate));
    }
    return smaller;
  }

  /// Removes outputs and updates.
  bool remove_ends() {
    bool smaller = false;
    for (int i = static_cast<int>(best_.graph.outputs().size()) - 1; i >= 0; --i)
      smaller |= remove({{}, {i}, {}});
    for (int v = static_cast<int>(best_.graph.variables().size()) - 1; v >= 0; --v)
      if (v < static_cast<int>(best_.graph.variables().size()) && best_.graph.variables()[v].next)
        smaller |= remove({{}, {}, {v}});
    return smaller;
  }

  /// Makes axes smaller; an axis of one rank divides nothing.
  bool shrink_meshes() {
    bool smaller = false;
    for (size_t index = 0; index < best_.meshes.size(); ++index)
      for (int axis = 0; axis < best_.meshes[index].mesh->axis_count(); ++axis)
        for (int64_t extent = 1; extent < best_.meshes[index].mesh->shape()[axis]; ++extent)
          if (try_extent(index, axis, extent)) {
            smaller = true;
            break;
          }
    return smaller;
  }

  bool try_extent(size_t index, int axis, int64_t extent) {
    const Mesh& mesh = *best_.meshes[index].mesh;
    Shape shape = mesh.shape();
    shape[axis] = extent;
    AxisWeights weights = mesh.weights();
    if (!weights[axis].empty()) weights[axis].resize(static_cast<size_t>(extent));
    return try_mesh(index, Mesh(shape, mesh.axes(), {}, std::move(weights)));
  }

  /// Removes the weights of axes, one axis at a time.
  bool equal_parts() {
    bool smaller = false;
    for (size_t index = 0; index < best_.meshes.size(); ++index)
      for (int axis = 0; axis < best_.meshes[index].mesh->axis_count(); ++axis) {
        const Mesh& mesh = *best_.meshes[index].mesh;
        AxisWeights weights = mesh.weights();
        if (weights[axis].empty()) continue;
        weights[axis].clear();
        smaller |= try_mesh(index, Mesh(mesh.shape(), mesh.axes(), {}, std::move(weights)));
      }
    return smaller;
  }

  /// A stage and its views keep their ranks.
  bool try_mesh(size_t index, const Mesh& shape) {
    FuzzCase candidate = best_;
    MeshPtr& mesh = candidate.meshes[index].mesh;
    const NamedMesh& named = candidate.meshes[index];
    const bool is_viewed =
        std::ranges::count(candidate.meshes, named.name, &NamedMesh::view_of) > 0;
    if ((is_viewed || !named.view_of.empty()) && shape.size() != mesh->size()) return false;
    mesh = consecutive_mesh(shape, mesh->ranks().front());
    return try_case(std::move(candidate));
  }

  /// Puts everything on one of several meshes.
  bool drop_meshes() {
    bool smaller = false;
    for (size_t index = 0; best_.meshes.size() > 1 && index < best_.meshes.size();) {
      FuzzCase candidate = best_;
      const std::string name = candidate.meshes[index].name;
      candidate.meshes.erase(candidate.meshes.begin() + static_cast<std::ptrdiff_t>(index));
      for (NamedMesh& mesh : candidate.meshes)  // what is left of the ranks is a stage
        if (mesh.view_of == name) mesh.view_of.clear();
      std::erase_if(candidate.marks, [&](const Mark& mark) { return mark.mesh == name; });
      if (try_case(std::move(candidate)))
        smaller = true;
      else
        ++index;
    }
    return smaller;
  }

  bool one_micro_batch() {
    if (best_.micro_batches == 1) return false;
    FuzzCase candidate = best_;
    candidate.micro_batches = 1;
    return try_case(std::move(candidate));
  }

  bool no_chunks() {
    if (best_.chunks == 1) return false;
    FuzzCase candidate = best_;
    candidate.chunks = 1;
    return try_case(std::move(candidate));
  }

  bool no_levels() {
    if (best_.levels.empty()) return false;
    FuzzCase candidate = best_;
    candidate.levels.clear();
    return try_case(std::move(candidate));
  }

  bool fewer_passes() {
    bool smaller = false;
    for (size_t index = 0; index < best_.passes.size();) {
      FuzzCase candidate = best_;
      candidate.passes.erase(candidate.passes.begin() + static_cast<std::ptrdiff_t>(index));
      if (try_case(std::move(candidate)))
        smaller = true;
      else
        ++index;
    }
    return smaller;
  }

  bool plain_schedule() {
    if (best_.schedule == PipelineKind::kOneForwardOneBackward) return false;
    FuzzCase candidate = best_;
    candidate.schedule = PipelineKind::kOneForwardOneBackward;
    return try_case(std::move(candidate));
  }

  bool on_hosts() {
    bool smaller = false;
    for (size_t index = 0; index < best_.meshes.size(); ++index) {
      if (best_.meshes[index].device == DeviceKind::kHost) continue;
      FuzzCase candidate = best_;
      candidate.meshes[index].device = DeviceKind::kHost;
      smaller |= try_case(std::move(candidate));
    }
    return smaller;
  }

  bool one_step() {
    if (best_.steps == 1) return false;
    FuzzCase candidate = best_;
    candidate.steps = 1;
    return try_case(std::move(candidate));
  }

  FuzzCase best_;
  CaseFailure::Stage stage_;
  std::string kind_;
  const CaseFaults& faults_;
  int runs_;
};

}  // namespace

FuzzCase shrink_case(FuzzCase failing, const CaseFailure& failure, const CaseFaults& faults,
                     int runs) {
  return Shrink(std::move(failing), failure, faults, runs).run();
}

}  // namespace tessera::fuzz
