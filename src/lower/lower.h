// The compile half: from a serial graph and a few decisions to the task graph. lower.cpp is its
// table of contents.
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
#include "schedule/pipeline.h"
#include "shard/propagate.h"
#include "tasks/task_graph.h"

namespace tessera {

/// What one stage took, and how its result reads.
struct StageReport {
  std::string_view name;
  Seconds time{0};
};

struct CompileOptions {
  /// Called after each stage with its name and the text form of what it made, when set: `tessera
  /// explain --stages`, docs/tour.md.
  std::function<void(std::string_view stage, const std::string& text)> dump;
  RuleLookup rules = catalogue_rule;
  int64_t micro_batches = 1;  // of a step; divides dim 0 of every input
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  int64_t max_in_flight =
      0;  // of kAuto: micro-batches that a rank keeps at most; 0: PipelineOptions says
  ReshardOptions reshard = {};     // prices of links, and how sums are put together
  Bytes bucket = kGradientBucket;  // of gradients that travel together during the backward
  Bytes prefetch_window =
      kPrefetchWindow;     // of exchanges that are under way ahead of their turn; 0: none is
  HaloOptions halos = {};  // exchanged or computed, and by which prices
  CollectiveMatmulOptions collective_matmul =
      {};  // products taken apart with their exchanges: none, so many chunks, or where it pays
  bool check_placements =
      true;  // false: for a rule that is broken on purpose, to see that the numbers show it
};

/// What the plan says of compiling a training step.
CompileOptions compile_options(const Plan& plan);

struct Compiled {
  ShardedGraph sharded;  // with several micro-batches on the meshes with the axis of time in front
  TaskGraph tasks;
  ArenaPlans arenas;
  IndexedVector<StageIndex, MeshIndex> mesh_of_stage;  // of the plan's meshes; stages on equal
                                                       // meshes have the same
  MeshNames mesh_names;                                // those of its stages, "first+last";
                                                       // "first on host" for the host of a device
  std::vector<StageReport> stages;
};

/// Runs all stages.
///
///   requires  the graph is verified
///   ensures   check(tasks) and check_placements hold; the same inputs give the same result
///   throws    UserError (78) from the marks
Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});
/// As `plan` says, of a training step: its meshes, marks and decisions; the fields of `options`
/// that the plan decides are not read.
Compiled compile(const Graph& graph, const Plan& plan, CompileOptions options = {});
/// With everything on one mesh.
Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});

/// Cuts a program into tasks: runs of kernels of one role and mesh between exchanges. Sets order,
/// overwrite edges, producers and consumers.
TaskGraph make_tasks(Program program, const ArenaPlans& arenas);

}  // namespace tessera
