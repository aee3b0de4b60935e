#include "compiler/lower/lower.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"
#include "compiler/lower/internal/compiler_passes.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/make_tasks.h"
#include "compiler/lower/internal/verify_program.h"
#include "compiler/placement_check/placement_check.h"
#include "compiler/rewrite/rewrite.h"
#include "sharding/propagation/micro_batches.h"
#include "task_graph/actors/run_check.h"

namespace tessera {
namespace {

/// Calls visit(name, is optional) for each pass in order.
template <class Visit>
void for_each_pass(const Visit& visit) {
  for (const CompilerPass& pass : serial_passes()) visit(pass.name, pass.is_optional);
  for (const GraphPass& pass : graph_passes()) visit(pass.name, true);
  for (const CompilerPass& pass : placement_passes()) visit(pass.name, pass.is_optional);
  for (const CompilerPass& pass : program_passes()) visit(pass.name, pass.is_optional);
  visit(arena_pass().name, arena_pass().is_optional);
  for (const CompilerPass& pass : task_passes()) visit(pass.name, pass.is_optional);
}

void check_disabled(const std::vector<std::string>& disabled) {
  std::vector<std::string> optional;
  for_each_pass([&](std::string_view name, bool is_optional) {
    if (is_optional) optional.emplace_back(name);
  });
  for (const std::string& name : disabled)
    if (std::find(optional.begin(), optional.end(), name) == optional.end())
      throw UserError("the compiler pass '" + name + "' cannot be disabled",
                      "the result needs it, or there is no such pass",
                      "disable one of " + join(optional, ", "), ExitCode::kBadConfig);
}

bool is_enabled(const CompilerPass& pass, const CompilerState& state) {
  const auto& disabled = state.plan.disabled_passes;
  if (pass.name == "placements" && !state.options.check_placements) return false;
  if (pass.name == "check" && !state.options.verify) return false;
  return std::find(disabled.begin(), disabled.end(), pass.name) == disabled.end();
}

/// Runs one pass, times it, and hands its text form to the caller's dump.
void run_pass(const CompilerPass& pass, CompilerState& state) {
  if (!is_enabled(pass, state)) return;
  const auto start = std::chrono::steady_clock::now();
  pass.run(state);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  state.result.passes.push_back({pass.name, Seconds(time.count())});
  if (state.options.dump) state.options.dump(pass.name, pass.text(state));
}

Rewritten rewritten_graph(const CompilerState& state) {
  const auto passes = enabled_passes(graph_passes(), state.plan.disabled_passes);
  return state.options.rewrites
             ? state.options.rewrites->rewrite(state.serial, state.bounds, passes)
             : rewrite(state.serial, state.bounds, passes);
}

std::vector<bool> values_to_recompute(const CompilerState& state) {
  return state.options.rewrites
             ? state.options.rewrites->recomputed_values(state.serial, state.recompute)
             : recomputed_values(state.serial, state.recompute);
}

/// Decides what recompute "auto" computes again, from the placements without it.
///   requires  the bounds have the stages of the ops
RecomputeDecision recompute_decision(const CompilerState& state, bool solves_wide) {
  check_decides_recompute(state.plan);
  const Rewritten rewritten = rewritten_graph(state);
  const ShardedGraph sharded =
      propagate(rewritten.made.graph, meshes_in_time(state), state.plan.marks, state.options.rules,
                assignment_after(state.stages, rewritten.made));
  return decide_recompute({rewritten.made.graph, sharded, state.plan, solves_wide});
}

/// Of the graph before the passes over it.
void assign_stages(CompilerState& state) {
  if (state.plan.shardings) {
    SerialDecisions serial =
        serial_decisions(state.serial, state.meshes, *state.plan.shardings, state.options.section);
    state.bounds = {std::move(serial.stages), std::move(serial.kept)};
  } else {
    state.stages = assign_meshes(state.serial, state.meshes, state.plan.marks);
    state.bounds = {state.stages.ops, ops_kept_by(state.serial, state.plan.marks)};
  }
}

/// Runs the passes over the serial graph. The stages of the ops are those of the graph before them.
void rewrite_graph(CompilerState& state) {
  assign_stages(state);
  state.recompute = state.plan.recompute.kind == Recompute::Kind::kAuto
                        ? recompute_decision(state, true).recompute
                        : state.plan.recompute;
  state.bounds.recomputed = values_to_recompute(state);
  Rewritten rewritten = rewritten_graph(state);
  if (!state.plan.shardings) state.stages = assignment_after(state.stages, rewritten.made);
  state.result.graph = std::move(rewritten.made.graph);
  state.result.replaced = std::move(rewritten.made.replaced);
  for (const GraphPassReport& pass : rewritten.passes) {
    state.result.passes.push_back({pass.name, pass.time});
    if (state.options.dump)
      state.options.dump(pass.name, pass.changes.empty() ? "nothing is rewritten\n"
                                                         : join(pass.changes, "\n") + "\n");
  }
}

void run_passes_over_graph(CompilerState& state) {
  for (const CompilerPass& pass : serial_passes()) run_pass(pass, state);
  rewrite_graph(state);
}

void run_placement_passes(CompilerState& state) {
  run_passes_over_graph(state);
  for (const CompilerPass& pass : placement_passes()) run_pass(pass, state);
}

/// Checks the task graph that the program would become if `pass` were the last pass over it.
///   throws  InternalError that names the pass
void verify_tasks_after(const CompilerPass& pass, const CompilerState& state) {
  try {
    Program program = state.program;
    const ArenaPlans arenas = plan_arenas(program);
    const TaskGraph tasks = make_tasks(std::move(program), arenas);
    check(tasks);
    check_run(tasks, ranks(tasks));
    if (state.options.check_placements)
      check_placements(state.result.graph, tasks, state.plan.micro_batches);
  } catch (const InternalError& error) {
    throw InternalError("after the compiler pass '" + std::string(pass.name) +
                        "': " + error.what());
  }
}

void run_program_passes(CompilerState& state) {
  bool is_complete = false;  // the in-place pass sets the next values of the variables
  for (const CompilerPass& pass : program_passes()) {
    run_pass(pass, state);
    if (state.options.verify) verify(state.program, pass.name);
    is_complete = is_complete || pass.name == "in-place";
    if (state.options.verify_passes && is_complete) verify_tasks_after(pass, state);
  }
}

/// Of what a step executes, and where its tasks end.
uint64_t hash_of(const Program& program, const Plan& plan) {
  Hasher hasher;
  hasher.add(hash_of(program));
  hasher.add(static_cast<int>(plan.tasks.kind));
  hasher.add_each(plan.tasks.patterns);
  hasher.add(plan.micro_batches);
  for (const auto& [mesh, window] : program.windows) hasher.add(window.size.value());
  for (const InstructionInstance& instance : program.order) {
    hasher.add(instance.instruction.value());
    hasher.add(instance.micro_batch);
    hasher.add(instance.issue_after.value());
  }
  return hasher.value();
}

///   requires  the arenas are planned
PlannedMemory planned_memory(const CompilerState& state) {
  const Program& program = state.program;
  PlannedMemory memory;
  TaskGraph& graph = memory.graph;
  graph.meshes = program.meshes;
  graph.devices = program.devices;
  for (const ArenaPlan& arena : state.result.arenas) graph.arenas.push_back(arena.size);
  for (const ProgramVariable& variable : program.variables) {
    const RegisterIndex value = graph.registers.push_back(program.registers[variable.value]);
    graph.variables.push_back({variable.name, value, variable.initializer});
  }
  memory.program = hash_of(program, state.plan);
  return memory;
}

/// Of a plan that was stamped after other passes over the graph.
void note_other_passes(CompilerState& state) {
  if (!state.plan.fingerprint || !state.plan.fingerprint->rewritten) return;
  std::string text = describe_other_passes(state.plan, rewritten_fingerprint(state.result));
  if (!text.empty())
    state.result.sharded.notes.push_back({ShardingNote::Kind::kPasses, "", std::move(text)});
}

/// Of what the plan asks for and a pass that it disables would do.
void note_disabled_requests(CompilerState& state) {
  struct Request {
    std::string_view pass, key;
    bool is_made;
  };
  const Plan& plan = state.plan;
  const Request requests[] = {
      {"recompute", "recompute", plan.recompute.kind != Recompute::Kind::kNone},
      {"collective-matmul", "collective_matmul", plan.collective_matmul != 1},
      {"halos", "halos", plan.halos != HaloForm::kAuto},
      {"buckets", "bucket_mib", plan.bucket != kGradientBucket}};
  for (const auto& [pass, key, is_made] : requests)
    if (is_made && std::ranges::count(plan.disabled_passes, pass) > 0)
      state.result.sharded.notes.push_back({ShardingNote::Kind::kPasses, "",
                                            "the plan's " + std::string(key) +
                                                " has no effect: the pass '" + std::string(pass) +
                                                "' is disabled"});
}

}  // namespace

RewrittenFingerprint rewritten_fingerprint(const Compiled& compiled) {
  std::vector<std::string> passes;
  for (const PassReport& ran : compiled.passes)
    for (const GraphPass& pass : graph_passes())
      if (pass.name == ran.name) passes.emplace_back(pass.name);
  return rewritten_fingerprint(compiled.graph, std::move(passes));
}

RewrittenFingerprint rewritten_fingerprint(const Graph& graph, const Plan& plan,
                                           const CompileOptions& options) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_passes_over_graph(state);
  return rewritten_fingerprint(state.result);
}

std::optional<ValueId> find_value(const PlacedGraph& placed, std::string_view name) {
  const auto found = placed.replaced.find(name);
  return placed.graph.find_value(found == placed.replaced.end() ? name : found->second);
}

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for_each_pass([&](std::string_view name, bool) { names.push_back(name); });
  return names;
}

Compiled compile(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  return *compile_if(graph, plan, options, {});
}

std::optional<Compiled> compile_if(const Graph& graph, const Plan& plan,
                                   const CompileOptions& options, const EarlyExits& gates) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  if (gates.placed && !gates.placed(state.result)) return std::nullopt;
  run_program_passes(state);
  run_pass(arena_pass(), state);
  if (gates.in_memory && !gates.in_memory(planned_memory(state))) return std::nullopt;
  for (const CompilerPass& pass : task_passes()) run_pass(pass, state);
  note_other_passes(state);
  note_disabled_requests(state);
  return std::move(state.result);
}

Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  Plan plan;
  plan.meshes = meshes;
  plan.marks = marks;
  return compile(graph, plan, options);
}

Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  return compile(graph, one_mesh(std::move(mesh)), marks, options);
}

PlacedGraph placements(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  return std::move(state.result);
}

ShardingSection explicit_section(const Graph& graph, const Plan& plan,
                                 const CompileOptions& options, std::string_view name,
                                 const Shardings& known) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  ShardingSection section = to_shardings(state.result.graph, state.result.sharded, name, known);
  const SerialDecisions serial{std::move(state.bounds.stages), std::move(state.bounds.kept)};
  serial_to_shardings(graph, serial, state.meshes, name, known, section);
  return section;
}

RecomputeDecision recompute_decision(const Graph& graph, const Plan& plan,
                                     const CompileOptions& options) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  for (const CompilerPass& pass : serial_passes()) run_pass(pass, state);
  assign_stages(state);
  return recompute_decision(state, false);
}

Plan with_decided_recompute(const Graph& graph, Plan plan, const CompileOptions& options) {
  if (plan.recompute.kind != Recompute::Kind::kAuto) return plan;
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  plan.recompute = state.recompute;
  return plan;
}

Plan with_explicit_shardings(const Graph& graph, Plan plan, const CompileOptions& options) {
  plan = with_decided_recompute(graph, std::move(plan), options);
  const std::string name(options.section);
  Shardings shardings;
  shardings.sections.emplace_back(name, explicit_section(graph, plan, options, name));
  plan.shardings = std::move(shardings);
  plan.marks.clear();
  return plan;
}

}  // namespace tessera
