// The compiler passes, in the order in which they run: tables of functions over one state. The
// passes over the serial graph are graph_passes() (compiler/rewrite/rewrite.h);
// compiler/lower/lower.h runs them all.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/lower/internal/compiled.h"
#include "compiler/lower/internal/program.h"
#include "compiler/rewrite/rewrite.h"
#include "sharding/propagation/marks.h"

namespace tessera {

/// What the passes share: the inputs of the compiler, and what was made so far.
struct CompilerState {
  const Graph& serial;  // as it was given; the passes after the rewrites read result.graph
  const Plan& plan;
  const CompileOptions& options;
  const Meshes meshes = plan.placed();
  const ReshardOptions reshard = {plan.cost.links, plan.all_reduce};
  RewriteBounds bounds = {};   // of `serial`
  Recompute recompute = {};    // of the plan, with "auto" decided
  MeshAssignment stages = {};  // of result.graph; empty with explicit shardings, which say them
  Program program = {};
  std::string sum_chains = {};          // a line each
  std::string collective_matmuls = {};  // the same
  Compiled result = {};
};

struct CompilerPass {
  std::string_view name;
  void (*run)(CompilerState& state);
  std::string (*text)(const CompilerState& state);  // of what it made
  bool is_optional = false;                         // without it the result computes the same
};

/// The meshes, with an axis of micro-batches where there are several.
Meshes meshes_in_time(const CompilerState& state);

/// Before graph_passes(), which rewrite the serial graph.
std::span<const CompilerPass> serial_passes();
/// They decide the placement of every value and op.
std::span<const CompilerPass> placement_passes();
/// Over the program: local kernels and exchanges.
std::span<const CompilerPass> program_passes();
/// Plans the memory.
const CompilerPass& arena_pass();
/// They make and check the task graph.
std::span<const CompilerPass> task_passes();

}  // namespace tessera
