// The candidates among which a choice of memory is one of time.
#pragma once

#include <cstddef>
#include <vector>

#include "search/find_plan.h"

namespace tessera {

/// The front of time and memory: of the candidates that fit and obey, those that no other one beats
/// in one of the two without being worse in the other. Memory is that of the fullest rank. Of equal
/// ones the first.
///
///   returns  positions in answer.candidates, in ascending order of the steps
std::vector<size_t> kept_front(const PlanningAnswer& answer, const PlanConstraints& constraints);

}  // namespace tessera
