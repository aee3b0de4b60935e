// The compile half: from a serial graph and a few decisions to the task graph. lower.cpp is its
// table of contents: the list of compiler passes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "compiler/lower/internal/compiled.h"
#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/passes/device_copies.h"
#include "compiler/lower/internal/passes/halo_choice.h"
#include "compiler/lower/internal/passes/prefetch.h"
#include "compiler/lower/passes/collective_matmul.h"
#include "compiler/lower/recompute_choice.h"
#include "compiler/plan/plan.h"
#include "compiler/rewrite/rewrite_cache.h"
#include "compiler/schedule/pipeline.h"
#include "sharding/explicit/explicit_shardings.h"
#include "sharding/propagation/propagate.h"
#include "sharding/reshard/reshard.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The value of placed.graph that holds what the value `name` of the serial graph holds; nullopt
/// when there is none, since no result of the program needs it.
std::optional<ValueId> find_value(const PlacedGraph& placed, std::string_view name);

/// The fingerprint of compiled.graph, with the passes that made it.
RewrittenFingerprint rewritten_fingerprint(const Compiled& compiled);
/// That of compile(graph, plan, options), without the passes after those over the graph.
///   throws  as placements
RewrittenFingerprint rewritten_fingerprint(const Graph& graph, const Plan& plan,
                                           const CompileOptions& options = {});

/// The names of all compiler passes, in the order in which they run.
std::vector<std::string_view> pass_names();

/// Runs all compiler passes, as the plan says.
///
///   requires  the graph is verified
///   ensures   check(tasks) and check_placements hold, unless the options leave them out; the same
///             inputs give the same result
///   throws    UserError (78) from the marks or shardings, and for a disabled pass that does not
///             exist or that the result needs; InternalError of a check, which names the pass where
///             it can
///   A plan that was stamped after other passes over the graph gets a note.
Compiled compile(const Graph& graph, const Plan& plan, const CompileOptions& options = {});

/// The memory of a program. Its tasks, of which there are some for each micro-batch, are not made
/// yet.
struct PlannedMemory {
  /// Meshes, devices, arenas and variables, with the registers of these; no tasks and no results.
  TaskGraph graph;
  uint64_t program = 0;  // hash of its instructions in their order: equal of equal programs
};

/// Whether a compilation goes on, each asked once and in this order. What follows takes most of the
/// time and of the memory.
struct EarlyExits {
  std::function<bool(const PlacedGraph&)> placed = {};
  std::function<bool(const PlannedMemory&)> in_memory = {};
};
/// The same, if each of the gates that are set returns true.
std::optional<Compiled> compile_if(const Graph& graph, const Plan& plan,
                                   const CompileOptions& options, const EarlyExits& gates);
/// Of a plan that has only marks.
Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});
/// With everything on one mesh.
Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                 const CompileOptions& options = {});

/// The placements of all values and ops, without the passes after them.
///   throws  as compile
PlacedGraph placements(const Graph& graph, const Plan& plan, const CompileOptions& options = {});

/// The placements of the graph of one program as the section `name` of explicit shardings; `known`
/// has the sections before it (sharding/explicit/explicit_shardings.h).
///   throws  as compile
ShardingSection explicit_section(const Graph& graph, const Plan& plan,
                                 const CompileOptions& options, std::string_view name,
                                 const Shardings& known = {});
/// What recompute "auto" of the plan computes again, and what a rank keeps then. It is not made
/// where that takes seconds: RecomputeTerms::solves_wide is not set.
///   throws  as compile; UserError (3) when the limit is too small
RecomputeDecision recompute_decision(const Graph& graph, const Plan& plan,
                                     const CompileOptions& options = {});
/// `plan` with patterns of ops in place of recompute "auto", which is decided for this graph
/// (compiler/lower/recompute_choice.h).
///   throws  as compile; UserError (3) when the limit is too small
Plan with_decided_recompute(const Graph& graph, Plan plan, const CompileOptions& options = {});
/// `plan` with the placements of the graph of one program instead of its marks.
///   ensures  compile(graph, the result) gives the task graph of compile(graph, plan)
///   throws   as compile
Plan with_explicit_shardings(const Graph& graph, Plan plan, const CompileOptions& options = {});

}  // namespace tessera
