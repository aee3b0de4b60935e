#include "search/answers/kept_front.h"

namespace tessera {

std::vector<size_t> kept_front(const PlanningAnswer& answer, const PlanConstraints& constraints) {
  std::vector<size_t> front;
  // Those that fit come first, in ascending order of their steps; of equal steps the smallest one
  // has fewest ranks, not always least memory.
  for (size_t i = 0; i < answer.candidates.size(); ++i) {
    const EvaluatedCandidate& candidate = answer.candidates[i];
    if (!candidate.fits() || !obeys(candidate.candidate, constraints)) continue;
    const auto memory = [&](size_t at) { return answer.candidates[at].fullest.memory.all(); };
    if (!front.empty() && memory(front.back()) <= memory(i)) continue;
    if (!front.empty() && answer.candidates[front.back()].step() == candidate.step())
      front.pop_back();
    front.push_back(i);
  }
  return front;
}

}  // namespace tessera
