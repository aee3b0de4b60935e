// The choice among the best candidates by steps that are run, not simulated.
#pragma once

#include <functional>

#include "planner/search/find_plan.h"

namespace tessera {

/// Steps that each plan is run for. The shortest one counts, which other jobs disturb least.
inline constexpr int64_t kMeasuredSteps = 5;

/// Runs a candidate.  returns  the time of a step
using StepMeasurement = std::function<Seconds(const EvaluatedCandidate& candidate)>;

/// Measures those `count` candidates of `result` that fit, obey the constraints and have the
/// shortest predicted steps, in this order; fewer when there are fewer. The fastest one becomes
/// result.best; of equally fast ones the one that is predicted to be faster.
///
///   ensures  result.measured has them; the order of result.candidates does not change
///   throws   what `measure` throws
void choose_by_measurement(PlanSearchResult& result, const PlanConstraints& constraints,
                           int64_t count, const StepMeasurement& measure);

}  // namespace tessera
