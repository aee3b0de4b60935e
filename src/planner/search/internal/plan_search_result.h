// What is known of the candidates of a plan search, so far and in the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// Candidates whose steps were measured (planner/search/answers/measured_choice.h).
struct MeasuredChoice {
  struct Measured {
    size_t candidate = 0;  // its index in PlanSearchResult::candidates
    Seconds step{0};
  };
  std::vector<Measured> candidates;  // in the order of their predicted steps
  size_t fastest = 0;                // of `candidates`

  /// How much longer the candidate takes that was predicted to be the fastest one: 0.05 is 5%.
  double regret() const {
    return candidates.front().step.value() / candidates[fastest].step.value() - 1;
  }
};

/// A stage of a plan search (planner/search/find_plan.h).
struct SearchStageReport {
  std::string name, explanation;
  bool has_run = false;              // false: its condition did not hold, or the time was over
  Seconds time{0};                   // of this machine
  int64_t evaluated = 0;             // candidates that it added: simulated or excluded
  std::optional<Seconds> best = {};  // the step of the best candidate after it
};

struct PlanSearchResult {
  /// Those that fit come first, in ascending order of their steps; then those that do not fit, in
  /// ascending order of the bytes that are missing. Candidates of one program are one, except for
  /// those that the user compares.
  std::vector<EvaluatedCandidate> candidates;
  /// In ascending order of their bounds, which are above the step of the best one.
  std::vector<ExcludedCandidate> excluded;
  std::vector<UnusableCandidate> unusable;
  int64_t left_out = 0;   // presets that were not tried, beyond PlanSearchOptions::max_presets
  int64_t not_tried = 0;  // candidates and searches, by EvaluationOptions::stop
  int64_t local_search_trials = 0;  // changes of the best candidate that were tried
  /// The first candidate that fits and obeys the constraints, or of those that were measured the
  /// fastest one.
  std::optional<size_t> best;
  std::optional<MeasuredChoice> measured = {};
  std::vector<SearchStageReport> stages = {};  // in their order

  const EvaluatedCandidate* find(Candidate::Source source) const;  // nullptr: none
};

/// Has the plan a number of ranks that is allowed, the fixed degrees and the fixed mesh?
bool obeys(const Plan& plan, const PlanConstraints& constraints);
/// And the fixed marks?
bool obeys(const Candidate& candidate, const PlanConstraints& constraints);

/// Adds a candidate after the others. Of equal programs a preset is told rather than a plan of a
/// search, which is longer.
void keep(EvaluatedCandidate candidate, PlanSearchResult& result);
/// Adds what an evaluation has found, and chooses the best one.
void keep(Evaluations found, PlanSearchResult& result, const PlanConstraints& constraints);
/// Sorts the candidates and sets `best`.
void choose_best(PlanSearchResult& result, const PlanConstraints& constraints);

}  // namespace tessera
