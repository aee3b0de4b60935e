// What tests ask of the answer of a search.
#pragma once

#include <string>
#include <vector>

#include "planner/search/find_plan.h"

namespace tessera {

inline const EvaluatedCandidate& best_of(const PlanSearchResult& result) {
  return result.candidates.at(result.best.value());
}

/// The names of all candidates that were evaluated, in order.
inline std::vector<std::string> names_of(const PlanSearchResult& result) {
  std::vector<std::string> names;
  for (const EvaluatedCandidate& candidate : result.candidates)
    names.push_back(candidate.candidate.name);
  return names;
}

}  // namespace tessera
