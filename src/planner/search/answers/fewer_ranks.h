// Whether fewer ranks than those that are fixed would be faster.
#pragma once

#include <vector>

#include "planner/search/find_plan.h"

namespace tessera {

/// Data parallelism alone and tensor parallelism alone on the two largest proper divisors of a
/// fixed number of ranks. They do not obey, so they are compared and never the best plan. Empty
/// when fewer ranks are allowed, and when degrees or marks are fixed.
std::vector<Candidate> presets_on_fewer_ranks(const PlanRequest& request,
                                              const PlanConstraints& constraints,
                                              const PlanSearchResult& known);

}  // namespace tessera
