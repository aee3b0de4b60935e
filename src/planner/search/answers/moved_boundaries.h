// What a step would take if a boundary between two stages lay elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/internal/answers/stage_rows.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// A boundary moved by one unit (planner/pipeline/layer_sequence.h), earlier or later.
struct MovedBoundary {
  size_t stage = 0;                  // that begins at the boundary
  std::string after, moved;          // the forward op after which it begins, and would begin
  std::optional<Seconds> step = {};  // simulated; nullopt: it does not fit, or is impossible
};

/// The boundaries of the stages of `row`, each moved so that the stage has one unit less. Compiled
/// and simulated with the same meshes, micro-batches and schedule.
///
///   found    a candidate with stages that are divided as presets divide, which is compiled as a
///            whole; of others nothing is moved
///   placed   of its plan
std::vector<MovedBoundary> moved_boundaries(const PlanRequest& request,
                                            const EvaluatedCandidate& found,
                                            const PlacedGraph& placed, const StageRow& row);

}  // namespace tessera
