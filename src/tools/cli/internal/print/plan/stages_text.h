// The stages of the plan that was found: a table, and why their boundaries lie where they do.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"
#include "planner/search/answers/moved_boundaries.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// The stages of a plan, and what the step would be if a boundary lay elsewhere.
struct DescribedStages {
  std::vector<StageRow> rows;  // empty: the plan has no stages
  std::vector<MovedBoundary> moves = {};
};

/// Those of the best plan.
///   moves     are the boundaries of the stage that computes longest moved? Up to two plans, of two
///             stages on each device up to four, are compiled and simulated
///   requires  planned.best()
///   compiled  the best plan, or the last of its shorter steps
DescribedStages described_stages(const Planned& planned, const Compiled& compiled, bool moves);

/// A table and a sentence:
///
///     Stages
///       stage   modules                       ranks  devices       forward  backward  ...
///       stage0  tokens .. blocks.0.residual1  0-1    2 v100 of n0  1.2 ms   2.5 ms    ...
///
///     stage1 binds: its ranks compute for 81% of the step, those of other stages 60% to 72%. With
///     its first unit moved to stage0 (after blocks.1.residual1) the step takes 3.1 ms (+4.2%).
///
/// "" without stages.
std::string stages_text(const Planned& planned, const DescribedStages& stages);

/// {table: [{name, modules: [{first, last}], ranks, devices, forward_seconds, backward_seconds,
/// compute, exposed, idle, peak_bytes, capacity_bytes}], binding, moved: [{stage, behind, moved,
/// step_seconds}]}; null without stages.
Document stages_document(const Planned& planned, const DescribedStages& stages);

}  // namespace tessera
