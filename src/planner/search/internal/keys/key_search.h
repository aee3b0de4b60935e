// A local search over the keys of plans.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "planner/search/internal/keys/key_changes.h"
#include "planner/search/internal/plan_search_result.h"

namespace tessera {

/// Goes from a candidate to one that no change of one key (key_changes.h) makes faster: of each key
/// in turn the fastest value is kept, until a round over all keys finds none. While it does not
/// fit, to one that lacks less memory.
class KeySearch {
 public:
  ///   request, constraints  outlive it
  KeySearch(const PlanRequest& request, const PlanConstraints& constraints,
            EvaluationOptions evaluation)
      : request_(request), constraints_(constraints), evaluation_(std::move(evaluation)) {}

  /// What it ends at; nullopt where no change is better.
  ///   range    of the first round over the keys; then the nearest values are tried
  ///   work     EvaluatedCandidate::simulated_steps of all changes, at most and about: it may end
  ///            before every key was tried; receives what is left
  ///            No candidate is tried twice: one that was not better than another start is no
  ///            faster than where that one ended.
  ///   ensures  the result obeys the constraints and fits with all programs of a run, and is faster
  ///            by more than SearchPolicy::faster_by than a candidate that fits; or it lacks less
  std::optional<EvaluatedCandidate> better(const EvaluatedCandidate& start, int64_t& work,
                                           KeyRange range = KeyRange::kAll);

  int64_t trials() const { return trials_; }  // candidates that were evaluated or excluded
  /// Candidates and searches, because of EvaluationOptions::stop.
  int64_t not_tried() const { return not_tried_; }

 private:
  struct Descent;
  bool change_key(Descent& descent, size_t key);

  const PlanRequest& request_;
  const PlanConstraints& constraints_;
  const EvaluationOptions evaluation_;
  std::set<std::string> tried_;  // names
  int64_t trials_ = 0, not_tried_ = 0;
};

}  // namespace tessera
