#include "planner/pipeline/layer_sequence.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ir/graph/derivations.h"
#include "ir/ops/operator.h"
#include "planner/presets/dim_classes.h"
#include "planner/presets/presets.h"
#include "planner/presets/stages.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {
namespace {

std::vector<OpId> forward_ops(const Graph& graph) {
  std::vector<OpId> ops;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (graph.op({i}).role == Role::kForward) ops.push_back({i});
  return ops;
}

double work_of(const Graph& graph, OpId op) {
  const OpView shape = view(graph, graph.op(op));
  return shape.definition->work(shape).flops.value();
}

/// Joins the neighbours that have the least work together until there are at most `most`.
void join_units(const Graph& graph, const std::vector<OpId>& ops, int largest,
                std::vector<int>& begins) {
  std::vector<double> work(begins.size(), 0);
  for (int i = 0, unit = 0; i < std::ssize(ops); ++i) {
    while (unit + 1 < std::ssize(begins) && begins[unit + 1] <= i) ++unit;
    work[unit] += work_of(graph, ops[i]);
  }
  while (std::ssize(begins) > largest) {
    size_t smallest = 0;
    for (size_t i = 0; i + 1 < begins.size(); ++i)
      if (work[i] + work[i + 1] < work[smallest] + work[smallest + 1]) smallest = i;
    work[smallest] += work[smallest + 1];
    work.erase(work.begin() + static_cast<std::ptrdiff_t>(smallest) + 1);
    begins.erase(begins.begin() + static_cast<std::ptrdiff_t>(smallest) + 1);
  }
}

/// A stage for each unit, on a rank of its own.
Meshes meshes_of_units(int units) {
  Meshes meshes;
  for (int unit = 0; unit < units; ++unit)
    meshes.push_back({"unit" + std::to_string(unit),
                      std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"unit"},
                                                   std::vector<Rank>{unit})});
  return meshes;
}

/// The bytes that cross the beginning of each unit.
std::vector<Bytes> cut_bytes_of(const Graph& graph, const LayerSequence& sequence) {
  std::vector<Bytes> cut_bytes(sequence.units(), Bytes(0));
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    const Value& value = graph.value({i});
    if (value.producer.index < 0 || graph.op(value.producer).role != Role::kForward) continue;
    const int made = sequence.unit_of_op[value.producer.index];
    int last = made;
    for (OpId user : value.users)
      if (graph.op(user).role == Role::kForward)
        last = std::max(last, sequence.unit_of_op[user.index]);
    for (int unit = made + 1; unit <= last; ++unit) cut_bytes[unit] += byte_size(value.type);
  }
  return cut_bytes;
}

/// By value, of the forward: does it follow from the rows of an input?
std::vector<bool> follow_from_inputs(const Graph& graph) {
  std::vector<bool> reads_from(graph.values().size(), false);
  for (ValueId input : graph.inputs()) reads_from[input.index] = !graph.type(input).shape.empty();
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kForward) continue;
    const bool any =
        std::ranges::any_of(op.inputs, [&](ValueId input) { return reads_from[input.index]; });
    for (ValueId output : op.outputs) reads_from[output.index] = any;
  }
  return reads_from;
}

std::vector<LayerSequence::SharedVariable> shared_variables(const Graph& graph,
                                                            const LayerSequence& sequence) {
  std::vector<LayerSequence::SharedVariable> shared;
  for (const Variable& variable : graph.variables()) {
    if (!variable.trainable) continue;
    const int owner = sequence.unit_of_value[variable.value.index];
    std::set<int> readers;
    for (const OpId user : graph.value(variable.value).users)
      if (graph.op(user).role == Role::kForward) readers.insert(sequence.unit_of_op[user.index]);
    readers.erase(owner);
    for (const int reader : readers)
      shared.push_back({owner, reader, byte_size(graph.type(variable.value))});
  }
  return shared;
}

std::vector<std::vector<int>> reads_of(const Graph& graph, const LayerSequence& sequence) {
  const std::vector<bool> has_rows = follow_from_inputs(graph),
                          has_gradient = depend_on_parameters(graph);
  std::vector<std::set<int>> reads(sequence.units());
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    if (graph.op({i}).role != Role::kForward) continue;
    for (ValueId input : graph.op({i}).inputs)
      if (const OpId maker = graph.value(input).producer;
          maker.index >= 0 && has_rows[input.index] && has_gradient[input.index])
        reads[sequence.unit_of_op[i]].insert(sequence.unit_of_op[maker.index]);
  }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& units : reads) lists.emplace_back(units.begin(), units.end());
  return lists;
}

}  // namespace

bool LayerSequence::reads_from(int first, int begin, int end) const {
  for (int unit = begin; unit < end; ++unit)
    if (std::ranges::any_of(reads[unit],
                            [&](int other) { return other >= first && other < begin; }))
      return true;
  return false;
}

std::vector<LayerSequence::Run> LayerSequence::branches() const {
  std::vector<bool> is_read(units(), false);  // by a later unit
  for (int unit = 0; unit < units(); ++unit)
    for (const int read : reads[unit])
      if (read < unit) is_read[read] = true;
  std::vector<Run> branches{{0, units()}};
  bool is_open = true;  // is the last one not joined with another one yet?
  for (int unit = 1; unit < units(); ++unit) {
    const bool reads_from_none =
        std::ranges::all_of(reads[unit], [&](int read) { return read == unit; });
    const bool begins_branch = reads_from_none && is_read[unit];
    const bool joins = !reads_from_none && reads[unit].front() < branches.back().begin;
    if (is_open && (begins_branch || joins)) branches.back().end = unit;
    if (begins_branch) branches.push_back({unit, units()});
    is_open = begins_branch || (is_open && !joins);
  }
  if (branches.size() == 1) branches.clear();
  return branches;
}

LayerSequence layer_sequence(const Graph& graph, int stages, const std::vector<int>& begins,
                             int max_units) {
  const std::vector<OpId> ops = forward_ops(graph);
  LayerSequence sequence;
  sequence.begins = stage_boundaries(graph, stages);
  sequence.begins.insert(sequence.begins.begin(), 0);
  join_units(graph, ops, max_units, sequence.begins);
  std::ranges::copy(begins, std::back_inserter(sequence.begins));
  std::ranges::sort(sequence.begins);
  const auto repeated = std::ranges::unique(sequence.begins);
  sequence.begins.erase(repeated.begin(), repeated.end());
  const Meshes meshes = meshes_of_units(sequence.units());
  std::vector<int> units(ops.size(), 0);
  for (int unit = 1; unit < sequence.units(); ++unit)
    std::fill(units.begin() + sequence.begins[unit], units.end(), unit);
  MeshAssignment assigned =
      assign_meshes(graph, meshes, stage_marks(graph, meshes, units, "units of the model"));
  sequence.unit_of_op = std::move(assigned.ops);
  sequence.unit_of_value = std::move(assigned.values);
  sequence.cut_bytes = cut_bytes_of(graph, sequence);
  sequence.shared = shared_variables(graph, sequence);
  sequence.reads = reads_of(graph, sequence);
  return sequence;
}

std::vector<bool> weight_gradients(const Graph& graph, const std::vector<int>& unit_of_op) {
  std::vector<int> reached = unit_of_op;
  std::vector<bool> result(reached.size(), false);
  for (int i = static_cast<int>(reached.size()) - 1; i >= 0; --i) {
    const Op& op = graph.op({i});
    if (op.role != Role::kBackward) continue;
    for (ValueId output : op.outputs)
      for (OpId user : graph.value(output).users)
        if (graph.op(user).role == Role::kBackward)
          reached[i] = std::min(reached[i], reached[user.index]);
    result[i] = reached[i] == unit_of_op[i];
  }
  return result;
}

std::vector<int> ops_by_name(const Graph& graph, const Graph& rewritten) {
  std::vector<int> originals;
  int before = 0;
  for (const Op& op : rewritten.ops()) {
    if (const std::optional<OpId> found = graph.find_op(first_computation(op.name)))
      before = found->index;
    originals.push_back(before);
  }
  return originals;
}

}  // namespace tessera
