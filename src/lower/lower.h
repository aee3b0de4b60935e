// The compile half: from a serial graph and a few decisions to the task graph. lower.cpp is its
// table of contents: the list of compiler passes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lower/passes/arena.h"
#include "lower/passes/buckets.h"
#include "lower/passes/collective_matmul.h"
#include "lower/passes/device_copies.h"
#include "lower/passes/halo_choice.h"
#include "lower/passes/prefetch.h"
#include "plan/plan.h"
#include "plan/task_granularity.h"
#include "schedule/pipeline.h"
#include "shard/propagate.h"
#include "tasks/task_graph.h"

namespace tessera {

/// The time that one compiler pass took.
struct PassReport {
  std::string_view name;
  Seconds time{0};
};

struct CompileOptions {
  /// Called after each pass with its name and the text form of what it made, when set: `tessera
  /// explain --passes`, docs/tour.md.
  std::function<void(std::string_view pass, const std::string& text)> dump;
  RuleLookup rules = catalogue_rule;
  int64_t micro_batches = 1;  // of a step; divides dim 0 of every input
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  /// Of kAuto: micro-batches that a rank keeps at most; 0: PipelineOptions decides.
  int64_t max_in_flight = 0;
  ReshardOptions reshard = {};     // prices of links, and how sums are computed
  Bytes bucket = kGradientBucket;  // of gradients that are exchanged together in the backward
  Bytes prefetch_window = kPrefetchWindow;  // of exchanges in flight before their turn; 0: none
  HaloOptions halos = {};                   // exchanged or computed, and by which prices
  CollectiveMatmulOptions collective_matmul = {};
  TaskGranularity tasks = {};                     // which kernels share a task
  std::vector<std::string> disabled_passes = {};  // names of optional passes
  /// false: for a rule that is broken on purpose, to see that the numbers show it.
  bool check_placements = true;
};

/// What the plan says of compiling a training step.
CompileOptions compile_options(const Plan& plan);

struct Compiled {
  /// With several micro-batches on meshes whose first axis is the micro-batch.
  ShardedGraph sharded;
  TaskGraph tasks;
  ArenaPlans arenas;
  /// Of the plan's meshes; stages on equal meshes have the same.
  IndexedVector<StageIndex, MeshIndex> mesh_of_stage;
  /// Those of the stages of a mesh, "first+last"; "first on host" for the host of a device.
  MeshNames mesh_names;
  std::vector<PassReport> passes;
};

/// The names of all compiler passes, in the order in which they run.
std::vector<std::string_view> pass_names();

/// Runs all compiler passes.
///
///   requires  the graph is verified
///   ensures   check(tasks) and check_placements hold; the same inputs give the same result
///   throws    UserError (78) from the marks, and for a disabled pass that is none or that the
///             result needs
Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});
/// As `plan` says, of a training step: its meshes, marks and decisions; the fields of `options`
/// that the plan decides are not read.
Compiled compile(const Graph& graph, const Plan& plan, CompileOptions options = {});
/// With everything on one mesh.
Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});

}  // namespace tessera
