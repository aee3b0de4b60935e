#include "planner/search/internal/plan_search_result.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

namespace tessera {
namespace {

int64_t size_of_axis(const Plan& plan, const std::string& axis) {
  int64_t size = 1;
  for (const NamedMesh& mesh : plan.meshes)
    if (const auto index = mesh.mesh->find_axis(axis))
      size = std::max(size, mesh.mesh->shape()[*index]);
  return size;
}

/// Before another one in the table.
bool is_before(const EvaluatedCandidate& a, const EvaluatedCandidate& b) {
  if (a.fits() != b.fits()) return a.fits();
  if (!a.fits()) return a.fullest.missing() < b.fullest.missing();
  return std::tuple(a.step(), a.ranks(), a.fullest.memory.all()) <
         std::tuple(b.step(), b.ranks(), b.fullest.memory.all());
}

/// A candidate of the same program, except for those that the user compares.
EvaluatedCandidate* find_same(PlanSearchResult& result, const EvaluatedCandidate& candidate) {
  const auto found = std::ranges::find_if(result.candidates, [&](const EvaluatedCandidate& known) {
    return known.candidate.source != Candidate::Source::kCompared &&
           known.program == candidate.program && known.ranks() == candidate.ranks();
  });
  return found == result.candidates.end() ? nullptr : &*found;
}

}  // namespace

const EvaluatedCandidate* PlanSearchResult::find(Candidate::Source source) const {
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
  if (constraints.has_presets_alone && candidate.source != Candidate::Source::kPreset) return false;
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

void keep(EvaluatedCandidate candidate, PlanSearchResult& result) {
  using Source = Candidate::Source;
  const Source source = candidate.candidate.source;
  EvaluatedCandidate* same = source == Source::kCompared ? nullptr : find_same(result, candidate);
  if (!same)
    result.candidates.push_back(std::move(candidate));
  else if (same->candidate.source != Source::kOneDevice &&
           same->candidate.source != Source::kPreset && source == Source::kPreset)
    *same = std::move(candidate);
}

void keep(Evaluations found, PlanSearchResult& result, const PlanConstraints& constraints) {
  std::ranges::move(found.excluded, std::back_inserter(result.excluded));
  for (EvaluatedCandidate& candidate : found.evaluated) keep(std::move(candidate), result);
  std::ranges::move(found.unusable, std::back_inserter(result.unusable));
  result.not_tried += found.not_tried;
  choose_best(result, constraints);
}

void choose_best(PlanSearchResult& result, const PlanConstraints& constraints) {
  std::ranges::stable_sort(result.candidates, is_before);
  result.best.reset();
  for (size_t i = 0; i < result.candidates.size() && !result.best; ++i)
    if (result.candidates[i].fits() && obeys(result.candidates[i].candidate, constraints))
      result.best = i;
}

}  // namespace tessera
