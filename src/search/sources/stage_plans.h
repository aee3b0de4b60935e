// The plans of pipelines that a search for stages has chosen.
#pragma once

#include <optional>

#include "search/candidates/candidate.h"
#include "search/sources/stage_divisions.h"
#include "stage_search/pipeline_choice.h"

namespace tessera {

/// The plan with the stages of a choice, its recomputation, and the placements of the training
/// step.
///   decisions  that are fixed for all plans
///   throws     UserError (78) when the model cannot have it
Plan plan_of(const PlanRequest& request, const Plan& decisions, const PipelineChoice& choice,
             const StageDivisions& divisions);

/// The same with the shorter steps from which a step of many micro-batches is predicted; nullopt
/// when the model cannot have it.
std::optional<Candidate> candidate_of(const PlanRequest& request, const Plan& decisions,
                                      const PipelineChoice& choice,
                                      const StageDivisions& divisions);

}  // namespace tessera
