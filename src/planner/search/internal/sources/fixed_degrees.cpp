#include "planner/search/internal/sources/fixed_degrees.h"

#include <algorithm>
#include <string>

#include "compiler/plan/preset.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

int64_t degree(const PlanConstraints& constraints, std::string_view name) {
  const auto found = constraints.degrees.find(name);
  return found == constraints.degrees.end() ? 1 : found->second;
}

/// What an axis does to an input.
enum class Use { kRows, kOtherDim, kNothing };

Use use_of(const DistAttr& canonical_placement, int axis) {
  for (int d = 0; d < std::ssize(canonical_placement.dims); ++d)
    if (std::ranges::count(canonical_placement.dims[d].axes, axis))
      return d == 0 ? Use::kRows : Use::kOtherDim;
  return Use::kNothing;
}

/// The uses that the fixed degrees leave to an axis.
std::vector<Use> allowed_uses(const std::string& axis, const PlanConstraints& constraints) {
  const auto is_fixed = [&](std::string_view name) { return constraints.degrees.contains(name); };
  constexpr std::pair<std::string_view, Use> kUses[] = {
      {kDataAxis, Use::kRows}, {kSpaceAxis, Use::kOtherDim}, {kTensorAxis, Use::kNothing}};
  std::vector<Use> uses;
  for (const auto& [name, use] : kUses)
    if (axis == name && is_fixed(name)) return {use};
  for (const auto& [name, use] : kUses)
    if (!is_fixed(name)) uses.push_back(use);
  return uses;
}

/// The placements of an input in which as many axes as possible have a use that is left to them.
std::vector<DistAttr> placements_of_input(const TensorType& type, const MeshPtr& mesh,
                                          const PlanConstraints& constraints) {
  std::vector<DistAttr> best;
  int fewest = mesh->axis_count() + 1;
  for (DistAttr& canonical_placement : plain_placements(type, mesh)) {
    int misused = 0;
    bool is_forbidden = false;
    for (int axis = 0; axis < mesh->axis_count(); ++axis) {
      const Use use = use_of(canonical_placement, axis);
      const std::vector<Use> allowed = allowed_uses(mesh->axes()[axis], constraints);
      if (std::ranges::count(allowed, use)) continue;
      // An input that is too short is whole on the axis, but never divided otherwise.
      is_forbidden |= use != Use::kNothing;
      ++misused;
    }
    if (is_forbidden || misused > fewest) continue;
    if (misused < fewest) best.clear();
    fewest = misused;
    best.push_back(std::move(canonical_placement));
  }
  return best;
}

}  // namespace

std::vector<MeshPtr> searched_meshes(const PlanConstraints& constraints, int machine) {
  if (constraints.mesh) return {constraints.mesh};
  const int64_t data = degree(constraints, kDataAxis), space = degree(constraints, kSpaceAxis),
                tensor = degree(constraints, kTensorAxis);
  const int64_t fixed = data * space * tensor;
  if (degree(constraints, kPipelineKey) > 1 || constraints.ranks % fixed != 0) return {};
  const auto rest = static_cast<int>(constraints.ranks / fixed);
  const bool all_are_fixed = constraints.degrees.contains(kDataAxis) &&
                             constraints.degrees.contains(kSpaceAxis) &&
                             constraints.degrees.contains(kTensorAxis);
  if (rest > 1 && all_are_fixed) return {};
  std::vector<MeshPtr> meshes;
  const auto add = [&](const std::vector<int>& others) {
    Shape shape;
    std::vector<std::string> axes;
    const auto push = [&](std::string_view name, int64_t size) {
      if (size == 1) return;
      shape.push_back(size);
      axes.emplace_back(name);
    };
    push(kDataAxis, data);
    for (size_t i = 0; i < others.size(); ++i) push(i == 0 ? "x" : "y", others[i]);
    push(kSpaceAxis, space);
    push(kTensorAxis, tensor);
    if (!axes.empty()) meshes.push_back(std::make_shared<const Mesh>(shape, axes));
  };
  add({rest});
  int even = 1;
  for (int first = 2; first * first <= rest; ++first)
    if (rest % first == 0) even = first;
  for (int first = 2; first < rest; ++first) {
    if (rest % first != 0) continue;
    const int second = rest / first;
    if (rest <= kSearchPolicy.free_rest || second == machine || second == even)
      add({first, second});
  }
  return meshes;
}

SearchConstraints constraints_on(const Graph& graph, const MeshPtr& mesh,
                                 const PlanConstraints& constraints) {
  SearchConstraints found = constraints_of_marks(graph, mesh, constraints.marks);
  if (constraints.degrees.empty() || constraints.mesh) return found;
  for (ValueId input : graph.inputs())
    found.restrict(graph, input, placements_of_input(graph.type(input), mesh, constraints),
                   "the fixed degrees on " + to_text(*mesh));
  return found;
}

}  // namespace tessera
