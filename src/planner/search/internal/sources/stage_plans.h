// The plans of pipelines that a search for stages has chosen.
#pragma once

#include <optional>

#include "planner/pipeline/pipeline_choice.h"
#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/internal/sources/stage_divisions.h"

namespace tessera {

/// The plan with the placements of the training step in place of its marks.
///   throws  as with_explicit_shardings() in compiler/lower/lower.h
Plan explicit_plan(const PlanRequest& request, Plan marked);

/// The plan with the stages of a choice, its recomputation, the placements of the training step,
/// and the shorter steps from which a step of many micro-batches is predicted;
/// nullopt when the model cannot have it.
///   decisions  that are fixed for all plans
std::optional<Candidate> candidate_of(const PlanRequest& request, const Plan& decisions,
                                      const PipelineChoice& choice,
                                      const StageDivisions& divisions);

}  // namespace tessera
