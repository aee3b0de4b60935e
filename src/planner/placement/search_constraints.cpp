#include "planner/placement/search_constraints.h"

#include <algorithm>

#include "base/error.h"
#include "sharding/propagation/marks.h"

namespace tessera {
namespace {

/// `attr` with each unused axis after the others of a dim that accepts it, or nowhere.
void add_axes(const TensorType& type, int axis, const std::vector<bool>& accepts, DistAttr attr,
              std::vector<DistAttr>& list) {
  if (axis == attr.mesh->axis_count()) {
    list.push_back(std::move(attr));
    return;
  }
  add_axes(type, axis + 1, accepts, attr, list);
  if (attr.uses(axis) || attr.mesh->shape()[axis] == 1) return;
  for (int d = 0; d < type.shape.size(); ++d) {
    if (!accepts[d] || attr.parts(d) * attr.mesh->shape()[axis] > type.shape[d]) continue;
    DistAttr divided = attr;
    divided.dims[d].axes.push_back(axis);
    add_axes(type, axis + 1, accepts, std::move(divided), list);
  }
}

std::vector<DistAttr> placements_of(const MarkedValue& marked, const TensorType& type) {
  if (marked.open.empty()) return {marked.attr};
  std::vector<DistAttr> canonical_placements;
  add_axes(type, 0, marked.open, marked.attr, canonical_placements);
  return canonical_placements;
}

/// A variable for the value that replaces it.
ValueId kept_value(const Graph& graph, ValueId value) {
  for (const Variable& variable : graph.variables())
    if (variable.next == value) return variable.value;
  return value;
}

}  // namespace

void SearchConstraints::restrict(const Graph& graph, ValueId value,
                                 const std::vector<DistAttr>& allowed, const std::string& what) {
  const auto [known, is_new] = canonical_placements.emplace(value.index, allowed);
  if (is_new) return;
  std::vector<DistAttr> both;
  for (const DistAttr& canonical_placement : known->second)
    if (std::ranges::count(allowed, canonical_placement)) both.push_back(canonical_placement);
  if (both.empty()) {
    const TensorType& type = graph.type(value);
    throw UserError(what + " leaves no placement for '" + graph.value(value).name + "'",
                    "it asks for " + to_text(type, allowed.front()) +
                        ", and another constraint for " + to_text(type, known->second.front()),
                    "remove one of the two, or leave the dim open", ExitCode::kBadConfig);
  }
  known->second = std::move(both);
}

SearchConstraints constraints_of_marks(const Graph& graph, const MeshPtr& mesh,
                                       const std::vector<Mark>& marks, const RuleLookup& rules) {
  const MeshAssignment everything{std::vector<int>(graph.ops().size(), 0),
                                  std::vector<int>(graph.values().size(), 0)};
  const ResolvedMarks resolved = resolve_marks(graph, one_mesh(mesh), everything, marks, rules);
  SearchConstraints constraints;
  for (const MarkedValue& marked : resolved.values)
    constraints.restrict(graph, kept_value(graph, marked.value),
                         placements_of(marked, graph.type(marked.value)),
                         "mark '" + marked.mark->pattern + "' (" + marked.mark->origin + ")");
  for (const MarkedOp& marked : resolved.ops)
    constraints.ops.emplace(marked.op.index, marked.sharding);
  const std::vector<std::optional<ReplicaLifetime>> lives = copy_lives(graph, marks);
  for (int i = 0; i < std::ssize(lives); ++i)
    if (lives[i] == ReplicaLifetime::kPass) constraints.copies_by_pass[i] = true;
  return constraints;
}

std::vector<DistAttr> plain_placements(const TensorType& type, const MeshPtr& mesh) {
  std::vector<DistAttr> list;
  const int rank = type.shape.size();
  add_axes(type, 0, std::vector<bool>(rank, true), DistAttr::replicated(mesh, rank), list);
  return list;
}

std::string text_of(const SearchConstraints& constraints, ValueId value) {
  std::string text;
  if (const auto found = constraints.canonical_placements.find(value.index);
      found != constraints.canonical_placements.end())
    for (const DistAttr& canonical_placement : found->second)
      text += "@" + to_text(canonical_placement);
  if (constraints.copies_by_pass.contains(value.index)) text += "@pass";
  return text;
}

std::string text_of(const SearchConstraints& constraints, const Graph& graph, OpId op) {
  std::string text;
  if (const auto found = constraints.ops.find(op.index); found != constraints.ops.end()) {
    for (const std::vector<int>& axes : found->second.factor_axes) {
      text += "!";
      for (int axis : axes) text += std::to_string(axis) + ",";
    }
    for (const LinearAxis& linear : found->second.linear)
      text += "+" + std::to_string(linear.axis) + ":" + std::to_string(linear.set);
    for (int64_t chunks : found->second.factor_chunks) text += "/" + std::to_string(chunks);
    for (const std::vector<Window>& windows : found->second.factor_windows)
      for (const Window& window : windows) text += "~" + to_text(window);
  }
  for (ValueId output : graph.op(op).outputs) text += text_of(constraints, output);
  for (ValueId input : graph.op(op).inputs)
    if (graph.variable_of(input)) text += text_of(constraints, input);
  return text;
}

}  // namespace tessera
