// The candidates among which a choice of memory is one of time.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/search/find_plan.h"

namespace tessera {

/// The Pareto front of time and memory: of the candidates that fit and obey, those that no other
/// one beats in one of the two without being worse in the other. Memory is that of the fullest
/// rank. Of equal ones the first.
///
///   returns  positions in result.candidates, in ascending order of the steps
std::vector<size_t> pareto_front(const PlanSearchResult& result,
                                 const PlanConstraints& constraints);

}  // namespace tessera
