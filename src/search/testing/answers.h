// What tests ask of the answer of a search.
#pragma once

#include <string>
#include <vector>

#include "search/find_plan.h"

namespace tessera {

inline const EvaluatedCandidate& best_of(const PlanningAnswer& answer) {
  return answer.candidates.at(answer.best.value());
}

/// The names of all candidates that were evaluated, in order.
inline std::vector<std::string> names_of(const PlanningAnswer& answer) {
  std::vector<std::string> names;
  for (const EvaluatedCandidate& candidate : answer.candidates)
    names.push_back(candidate.candidate.name);
  return names;
}

}  // namespace tessera
