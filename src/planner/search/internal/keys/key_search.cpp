#include "planner/search/internal/keys/key_search.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/internal/keys/key_changes.h"

namespace tessera {

/// A candidate on its way.
struct KeySearch::Descent {
  EvaluatedCandidate now;
  int64_t& work;
  KeyRange range;
};

namespace {

/// Does it fit, or lack less, or is it faster?
bool is_better(const EvaluatedCandidate& a, const EvaluatedCandidate& b) {
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a.step() < b.step() : a.fullest.missing() < b.fullest.missing();
}

}  // namespace

/// Takes the best value of a key. Was one better?
bool KeySearch::change_key(Descent& descent, size_t key) {
  const EvaluatedCandidate& now = descent.now;
  const auto changes = key_changes(request_, constraints_, now, descent.range);
  if (key >= changes.size()) return false;
  std::vector<Candidate> candidates;
  for (const KeyChange& change : changes[key]) {
    std::optional<Candidate> made = with_change(request_, constraints_, now.candidate, change);
    if (made && tried_.insert(made->name).second) candidates.push_back(*std::move(made));
  }
  if (candidates.empty()) return false;
  EvaluationOptions options = evaluation_;
  options.known_program = now.program;
  options.drops_slower = now.fits();
  if (now.fits()) options.limit = Seconds(now.step().value() * (1 - kSearchPolicy.faster_by));
  const bool are_many = now.ranks() > kSearchPolicy.many_ranks;  // the programs take gigabytes
  const size_t round = are_many ? 1 : candidates.size();
  Evaluations found;
  for (size_t first = 0; first < candidates.size(); first += round) {
    const auto begin = std::make_move_iterator(candidates.begin() + static_cast<int64_t>(first));
    Evaluations some = evaluate(request_, {begin, begin + static_cast<int64_t>(round)}, options);
    std::ranges::move(some.evaluated, std::back_inserter(found.evaluated));
    std::ranges::move(some.excluded, std::back_inserter(found.excluded));
    found.not_tried += some.not_tried;
  }
  const int64_t count = std::ssize(found.evaluated) + std::ssize(found.excluded);
  trials_ += count;
  not_tried_ += found.not_tried;
  const int64_t of_ranks = std::max(now.ranks() / kSearchPolicy.many_ranks, 1);
  descent.work -=
      count * of_ranks * std::max<int64_t>(now.simulated_steps, std::ssize(request_.graph.ops()));
  for (EvaluatedCandidate& each : found.evaluated)
    if (each.fits()) complete_memory(request_, each);
  const auto best = std::ranges::min_element(found.evaluated, is_better);
  if (best == found.evaluated.end() || !is_better(*best, now) ||
      !obeys(best->candidate, constraints_))
    return false;
  descent.now = std::move(*best);
  return true;
}

std::optional<EvaluatedCandidate> KeySearch::better(const EvaluatedCandidate& start, int64_t& work,
                                                    KeyRange range) {
  tried_.insert(start.candidate.name);
  Descent descent{start, work, range};
  bool has_changed = false;
  // Ends when each key was tried since the last one that was better.
  size_t since = 0, key = 0;
  while (work > 0) {
    if (evaluation_.stop && evaluation_.stop()) {
      ++not_tried_;
      break;
    }
    const size_t keys = key_changes(request_, constraints_, descent.now, descent.range).size();
    if (since >= keys) break;
    if (key >= keys) {
      key = 0;
      descent.range = KeyRange::kNearest;
      continue;
    }
    if (change_key(descent, key)) {
      since = 0;
      has_changed = true;
    } else {
      ++since;
      ++key;
    }
  }
  if (!has_changed) return std::nullopt;
  return std::move(descent.now);
}

}  // namespace tessera
