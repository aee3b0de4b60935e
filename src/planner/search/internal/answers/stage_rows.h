// The stages of a pipeline as they run: what each one holds, computes and waits for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "simulator/step/step_prediction.h"

namespace tessera {

/// A run of forward ops by its first and its last one. A scope stands for an op where all of its
/// ops are in the run: "blocks.1" for "blocks.1.norm1.mean".
struct ModuleRun {
  std::string first, last;

  bool operator==(const ModuleRun&) const = default;
};

/// The stages of one mesh. Those on equal meshes take turns, and are one row.
struct StageRow {
  std::vector<size_t> stages;      // indices in the meshes of the plan
  std::string name;                // "stage0"; "stage0+stage3"
  std::vector<ModuleRun> modules;  // of each of the stages
  std::vector<Rank> ranks;
  /// Of the kernels of one micro-batch in all of the stages, on the rank that takes longest;
  /// nullopt where the step was estimated, or is only bounded.
  std::optional<Seconds> forward = {}, backward = {};
  /// Parts of the step, in the mean over the ranks, which add up to 1: kernels; exchanges that no
  /// kernel hides; waits, which are the bubble.
  double compute = 0, exposed = 0, idle = 0;
  RankMemoryNeed memory = {};  // of the fullest rank
};

/// The rows of a plan with several meshes, by their first stages; else none.
///   compiled    of the plan, or of the same plan with fewer micro-batches
///   prediction  of the plan; its step is above 0
std::vector<StageRow> stage_rows(const Compiled& compiled, const Plan& plan,
                                 const StepPrediction& prediction);

/// The row whose ranks compute for most of the step.
///   requires  rows
const StageRow& binding_row(const std::vector<StageRow>& rows);

/// By forward op of `graph` in program order: its stage in a plan with several meshes. An op that
/// a pass has replaced is in that of the op before it.
std::vector<int> stages_of_ops(const Graph& graph, const PlacedGraph& placed);

}  // namespace tessera
