#include "planner/search/internal/keys/key_search.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/internal/keys/key_changes.h"

namespace tessera {

/// A candidate on its way.
struct KeySearch::Descent {
  EvaluatedCandidate now;
  std::set<std::string> tried;  // names
  KeyRange range = KeyRange::kAll;
};

/// Takes the fastest value of a key. Was one faster?
bool KeySearch::change_key(Descent& descent, size_t key) {
  const EvaluatedCandidate& now = descent.now;
  const auto changes = key_changes(request_, constraints_, now, descent.range);
  if (key >= changes.size()) return false;
  std::vector<Candidate> candidates;
  for (const KeyChange& change : changes[key]) {
    std::optional<Candidate> made = with_change(request_, constraints_, now.candidate, change);
    if (made && descent.tried.insert(made->name).second) candidates.push_back(*std::move(made));
  }
  if (candidates.empty()) return false;
  const double limit = now.step().value() * (1 - kSearchPolicy.faster_by);
  EvaluationOptions options = evaluation_;
  options.limit = Seconds(limit);
  options.drops_slower = true;
  options.known_program = now.program;
  Evaluations found = evaluate(request_, std::move(candidates), options);
  trials_ += std::ssize(found.evaluated) + std::ssize(found.excluded);
  not_tried_ += found.not_tried;
  work_ -= now.simulated_steps * (std::ssize(found.evaluated) + std::ssize(found.excluded));
  std::erase_if(found.evaluated, [&](const EvaluatedCandidate& each) {
    return !each.fits() || each.step().value() > limit || !obeys(each.candidate, constraints_);
  });
  std::ranges::stable_sort(found.evaluated, {}, &EvaluatedCandidate::step);
  for (EvaluatedCandidate& each : found.evaluated) {
    complete_memory(request_, each);
    if (!each.fits()) continue;
    descent.now = std::move(each);
    return true;
  }
  return false;
}

std::optional<EvaluatedCandidate> KeySearch::faster(const EvaluatedCandidate& start) {
  Descent descent{start, {start.candidate.name}};
  bool is_faster = false;
  // Ends when each key was tried since the last one that was faster.
  size_t since = 0, key = 0;
  while (work_ > 0 && !(evaluation_.stop && evaluation_.stop())) {
    const size_t keys = key_changes(request_, constraints_, descent.now, descent.range).size();
    if (since >= keys) break;
    if (key >= keys) {
      key = 0;
      descent.range = KeyRange::kNearest;
      continue;
    }
    if (change_key(descent, key)) {
      since = 0;
      is_faster = true;
    } else {
      ++since;
      ++key;
    }
  }
  if (!is_faster) return std::nullopt;
  return std::move(descent.now);
}

}  // namespace tessera
