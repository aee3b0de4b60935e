// Plans whose backward computes again what costs least under a limit of memory: recompute "auto"
// (compiler/lower/recompute_choice.h).
#pragma once

#include "planner/search/internal/plan_search_result.h"

namespace tessera {

/// Up to six plans that keep everything and do not fit, with a limit of what a rank keeps for the
/// backward (Recompute::limit) that is what the memory leaves for it. First is the fastest plan
/// of those that are `selective` or `full`; then those follow that may be faster than it, of the
/// least bound first. They are presets, of which dp divides the state (zero=1) if that was not
/// tried, pipelines of the search, and plans with marks that the user gives; what the search for
/// placements finds has none.
///
/// A limit is what the plan keeps less what it lacks. The plan under it is compiled: what it lacks
/// then is taken from the limit again, three times at most. The best plan of all is tried once more
/// with what it leaves of the memory added to its limit.
///
///   excludes    PlanSearchOptions; no plan of `known` is compiled again
///   returns     those that fit, each called as a preset would be: "dp=4,recompute=auto,
///               activation_mib=812"; nothing where memory does not bind, where the decision is
///               slow (RecomputeTerms::solves_wide), and when the constraints fix `recompute`
///   time        a few milliseconds for each of at most twelve plans, and at most 36 compilations
Evaluations with_recompute_limits(const PlanRequest& request, const PlanConstraints& constraints,
                                  const PlanSearchResult& known,
                                  const EvaluationOptions& evaluation, bool excludes);

}  // namespace tessera
