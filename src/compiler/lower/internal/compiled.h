// What the compiler takes beside the graph and the plan, and what it makes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/passes/device_copies.h"
#include "compiler/lower/internal/passes/halo_choice.h"
#include "compiler/lower/internal/passes/prefetch.h"
#include "compiler/lower/passes/collective_matmul.h"
#include "compiler/plan/plan.h"
#include "compiler/rewrite/rewrite_cache.h"
#include "compiler/schedule/pipeline.h"
#include "sharding/explicit/explicit_shardings.h"
#include "sharding/propagation/propagate.h"
#include "sharding/reshard/reshard.h"
#include "task_graph/tasks/task_graph.h"

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
  /// The section of the plan's explicit shardings that is for this graph.
  std::string_view section = kTrainSection;
  /// Whether the task graph that the program would become is made and checked after each pass over
  /// the program, so that a fault names the pass that made it.
  bool verify_passes = false;
  /// false: neither the graph, nor the program after each pass, nor the task graph is verified. For
  /// plans that are only compared: the one that is chosen is compiled again.
  bool verify = true;
  /// false: for a rule that is broken on purpose, to see that the numbers show it.
  bool check_placements = true;
  /// Graphs that were rewritten before, of compilations of the same graph under several plans.
  std::shared_ptr<RewriteCache> rewrites = {};
};

/// A graph with the placements of its ops and values.
struct PlacedGraph {
  /// The serial graph after the passes that rewrite it. `sharded` is of this graph.
  Graph graph;
  /// By name of a value of the serial graph that these passes replaced: the name in `graph` of the
  /// value that holds the same.
  std::map<std::string, std::string, std::less<>> replaced;
  /// With several micro-batches on meshes whose first axis is the micro-batch.
  ShardedGraph sharded;
};

struct Compiled : PlacedGraph {
  TaskGraph tasks;
  ArenaPlans arenas;
  /// Of the plan's meshes; stages on equal meshes have the same.
  IndexedVector<StageIndex, MeshIndex> mesh_of_stage;
  /// Those of the stages of a mesh, "first+last"; "first on host" for the host of a device.
  MeshNames mesh_names;
  /// Of several micro-batches: the passes of the stages, and their bubbles.
  std::optional<PipelineOrder> pipeline;
  std::vector<PassReport> passes;
};

}  // namespace tessera
