#include "planner/search/answers/pareto_front.h"

namespace tessera {

std::vector<size_t> pareto_front(const PlanSearchResult& result,
                                 const PlanConstraints& constraints) {
  std::vector<size_t> front;
  // Those that fit come first, in ascending order of their steps; of equal steps the smallest one
  // has fewest ranks, not always least memory.
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    const EvaluatedCandidate& candidate = result.candidates[i];
    if (!candidate.fits() || !obeys(candidate.candidate, constraints)) continue;
    const auto memory = [&](size_t at) { return result.candidates[at].fullest.memory.all(); };
    if (!front.empty() && memory(front.back()) <= memory(i)) continue;
    if (!front.empty() && result.candidates[front.back()].step() == candidate.step())
      front.pop_back();
    front.push_back(i);
  }
  return front;
}

}  // namespace tessera
