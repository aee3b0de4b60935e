#include "search/find_plan.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "placement_search/search_constraints.h"
#include "plan/preset.h"

namespace tessera {
namespace {

/// Before another one in the table.
bool is_before(const EvaluatedCandidate& a, const EvaluatedCandidate& b) {
  if (a.fits() != b.fits()) return a.fits();
  if (!a.fits()) return a.fullest.missing() < b.fullest.missing();
  return std::tuple(a.step(), a.ranks(), a.fullest.memory.all()) <
         std::tuple(b.step(), b.ranks(), b.fullest.memory.all());
}

/// A candidate of the same program, but for those that the user compares.
EvaluatedCandidate* find_same(PlanningAnswer& answer, const EvaluatedCandidate& candidate) {
  const auto found = std::ranges::find_if(answer.candidates, [&](const EvaluatedCandidate& known) {
    return known.candidate.source != Candidate::Source::kCompared &&
           known.program == candidate.program && known.ranks() == candidate.ranks();
  });
  return found == answer.candidates.end() ? nullptr : &*found;
}

class Planning {
 public:
  Planning(const PlanRequest& request, const PlanningOptions& options)
      : request_(request), options_(options), evaluation_(options.evaluation) {}

  PlanningAnswer answer() {
    const PlanConstraints& constraints = options_.constraints;
    if (constraints.mesh)  // refuses marks that contradict each other
      constraints_of_marks(request_.graph, constraints.mesh, constraints.marks);
    std::vector<Candidate> candidates{one_device(constraints)};
    std::ranges::copy(options_.compared, std::back_inserter(candidates));
    add(std::move(candidates));
    for (const CandidateSource& source : options_.sources)
      add(source(request_, constraints, std::as_const(answer_)));
    PresetGrid grid = preset_grid(request_, constraints, options_.max_presets);
    answer_.left_out = grid.left_out;
    std::ranges::move(grid.unusable, std::back_inserter(answer_.unusable));
    add(std::move(grid.candidates));
    add_micro_batches();
    std::ranges::stable_sort(answer_.excluded, {}, &ExcludedCandidate::bound);
    return std::move(answer_);
  }

 private:
  void add(std::vector<Candidate> candidates) {
    for (int64_t first = 0; first < std::ssize(candidates); first += kRound) {
      const auto begin = std::make_move_iterator(candidates.begin() + first);
      add_round({begin, begin + std::min(kRound, std::ssize(candidates) - first)});
    }
  }

  void add_round(std::vector<Candidate> candidates) {
    if (options_.excludes && answer_.best)
      evaluation_.limit = answer_.candidates[*answer_.best].step();
    Evaluations found = evaluate(request_, std::move(candidates), evaluation_);
    std::ranges::move(found.excluded, std::back_inserter(answer_.excluded));
    for (EvaluatedCandidate& candidate : found.evaluated) keep(std::move(candidate));
    std::ranges::move(found.unusable, std::back_inserter(answer_.unusable));
    answer_.not_tried += found.not_tried;
    std::ranges::stable_sort(answer_.candidates, is_before);
    answer_.best.reset();
    for (size_t i = 0; i < answer_.candidates.size() && !answer_.best; ++i)
      if (answer_.candidates[i].fits() &&
          obeys(answer_.candidates[i].candidate, options_.constraints))
        answer_.best = i;
  }

  /// Of equal programs a preset is told rather than a plan of the search, which is longer.
  void keep(EvaluatedCandidate candidate) {
    using Source = Candidate::Source;
    const Source source = candidate.candidate.source;
    EvaluatedCandidate* same =
        source == Source::kCompared ? nullptr : find_same(answer_, candidate);
    if (!same)
      answer_.candidates.push_back(std::move(candidate));
    else if (same->candidate.source != Source::kOneDevice && source == Source::kPreset)
      *same = std::move(candidate);
  }

  /// Of the presets that do not fit and are faster than the best candidate.
  void add_micro_batches() {
    std::vector<std::pair<Seconds, Candidate>> faster;
    for (const EvaluatedCandidate& known : answer_.candidates)
      if (known.candidate.source == Candidate::Source::kPreset && !known.fits() &&
          (!answer_.best || known.step() < answer_.candidates[*answer_.best].step()))
        faster.emplace_back(known.step(), known.candidate);
    std::ranges::stable_sort(faster, {}, [](const auto& entry) { return entry.first; });
    std::vector<Candidate> presets;
    for (auto& [step, preset] : faster) presets.push_back(std::move(preset));
    std::vector<Candidate> candidates = with_micro_batches(request_, options_.constraints, presets);
    const auto limit = static_cast<size_t>(options_.max_presets);
    if (candidates.size() > limit) {
      answer_.left_out += std::ssize(candidates) - options_.max_presets;
      candidates.resize(limit);
    }
    add(std::move(candidates));
  }

  const PlanRequest& request_;
  const PlanningOptions& options_;
  EvaluationOptions evaluation_;  // with the limit of the next round
  PlanningAnswer answer_;
};

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

PlanningAnswer find_plan(const PlanRequest& request, const PlanningOptions& options) {
  return Planning(request, options).answer();
}

bool obeys(const Candidate& candidate, const PlanConstraints& constraints) {
  // What the search finds keeps the marks, and says the placements in their place.
  return obeys(candidate.plan, constraints) &&
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
