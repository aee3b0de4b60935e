// The step of a candidate in terms that every candidate has, whatever the names of its axes.
#pragma once

#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// In the mean over the ranks. The terms add up to the step.
struct StepTerms {
  Seconds compute{0};
  /// Exchanges that no kernel hides, of ranks of one machine, and of ranks of several.
  Seconds within_machines{0}, between_machines{0};
  Seconds idle{0};
};

/// Exchanges over several axes are between machines when a group of one of them is; those between
/// meshes when meshes that follow each other are on several machines.
StepTerms step_terms(const Cluster& cluster, const EvaluatedCandidate& candidate);

}  // namespace tessera
