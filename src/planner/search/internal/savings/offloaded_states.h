// Plans that do not fit, with the state of the optimizer in a file (compiler/plan/offload.h): the
// last resort, since a file is much slower than memory.
#pragma once

#include <vector>

#include "planner/search/internal/plan_search_result.h"

namespace tessera {

/// Up to four plans that do not fit, each with windows of three of the largest variables, and then
/// of one (Plan::offload_window). First are those that lack the least memory beside their state, of
/// these the fastest.
///
///   known    no plan of it fits
///   returns  the candidates, one list for each window: a smaller one is worth a trial where none
///            of the list before fits. Nothing where a device is no core, the optimizer keeps no
///            state, and when the constraints fix `offload`
///   names    "dp=2,zero=1,offload=state,offload_mib=12"
std::vector<std::vector<Candidate>> with_offloaded_states(const PlanRequest& request,
                                                          const PlanConstraints& constraints,
                                                          const PlanSearchResult& known);

}  // namespace tessera
