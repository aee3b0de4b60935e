// What the search for pipelines tries: numbers of micro-batches, schedules, and how much work.
#pragma once

#include "planner/pipeline/pipeline_choice.h"
#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// As the constraints and the number of ranks allow; without boundaries and ranks of units. Where a
/// schedule or a number of micro-batches is fixed that no such pipeline has, there are none.
StageSearchOptions stage_options(const PlanRequest& request, const PlanConstraints& constraints);

}  // namespace tessera
