#include "search/planning_answer.h"

#include <algorithm>
#include <string>

namespace tessera {
namespace {

int64_t size_of_axis(const Plan& plan, const std::string& axis) {
  int64_t size = 1;
  for (const NamedMesh& mesh : plan.meshes)
    if (const auto index = mesh.mesh->find_axis(axis))
      size = std::max(size, mesh.mesh->shape()[*index]);
  return size;
}

}  // namespace

const EvaluatedCandidate* PlanningAnswer::find(Candidate::Source source) const {
  const auto found = std::ranges::find_if(candidates, [&](const EvaluatedCandidate& candidate) {
    return candidate.candidate.source == source;
  });
  return found == candidates.end() ? nullptr : &*found;
}

bool obeys(const Candidate& candidate, const PlanConstraints& constraints) {
  // What the search finds keeps the marks, and says the placements in their place.
  // Plans that the user gives, or that are kept, may cut elsewhere.
  const bool is_cut = fixes_decision(constraints, kStagesKey) || !constraints.boundaries.empty();
  const bool is_ours = candidate.source == Candidate::Source::kPreset ||
                       candidate.source == Candidate::Source::kPipeline;
  if (!constraints.hardware.empty() && !is_ours) return false;
  return obeys(candidate.plan, constraints) &&
         (!is_cut || is_ours || candidate.plan.meshes.size() < 2) &&
         (candidate.source == Candidate::Source::kSearch ||
          std::ranges::all_of(constraints.marks, [&](const Mark& mark) {
            return std::ranges::count(candidate.plan.marks, mark) > 0;
          }));
}

bool obeys(const Plan& plan, const PlanConstraints& constraints) {
  if (!constraints.allows(plan.rank_count())) return false;
  if (constraints.mesh && (plan.meshes.size() != 1 || !(*plan.meshes[0].mesh == *constraints.mesh)))
    return false;
  return std::ranges::all_of(constraints.degrees, [&](const auto& degree) {
    const auto& [name, size] = degree;
    if (name == kPipelineKey)
      return std::max<int64_t>(std::ssize(plan.meshes), 1) % size == 0;  // interleaved have more
    return size_of_axis(plan, name) == size;
  });
}

}  // namespace tessera
