#include "lower/lower.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "actors/run_check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "lower/instances.h"
#include "lower/make_tasks.h"
#include "lower/partition.h"
#include "lower/passes/combine.h"
#include "lower/passes/device_copies.h"
#include "lower/passes/in_place.h"
#include "lower/passes/offload.h"
#include "lower/passes/order.h"
#include "lower/passes/sum_chains.h"
#include "lower/recompute_choice.h"
#include "lower/region.h"
#include "lower/task_groups.h"
#include "lower/unroll.h"
#include "lower/verify_program.h"
#include "placement_check/placement_check.h"
#include "rewrite/rewrite.h"
#include "shard/micro_batches.h"

namespace tessera {
namespace {

/// By mesh of the program.  throws  UserError (78) when a rank is to compute on devices of two
/// kinds
IndexedVector<MeshIndex, DeviceKind> devices_of(const Program& program, const Meshes& meshes) {
  std::map<Rank, std::pair<DeviceKind, std::string>> by_rank;
  IndexedVector<MeshIndex, DeviceKind> devices(program.meshes.size());
  for (StageIndex stage : program.mesh_of_stage.indices()) {
    const NamedMesh& mesh = meshes[stage.value()];
    devices[program.mesh_of_stage[stage]] = mesh.device;
    for (Rank rank : mesh.mesh->ranks()) {
      const auto& [device, other] = by_rank.try_emplace(rank, mesh.device, mesh.name).first->second;
      if (device != mesh.device)
        throw UserError("rank " + std::to_string(rank) + " is in mesh '" + other + "' of devices " +
                            std::string(to_text(device)) + " and in mesh '" + mesh.name +
                            "' of devices " + std::string(to_text(mesh.device)),
                        "a rank computes on devices of one kind",
                        "give both meshes the same device, or one of them other ranks",
                        ExitCode::kBadConfig);
    }
  }
  return devices;
}

std::string arena_text(const Compiled& compiled) {
  const ArenaPlans& arenas = compiled.arenas;
  std::string text;
  for (MeshIndex i : arenas.indices())
    text += "arena" + (arenas.size() > 1 ? " of " + compiled.mesh_names[i] : "") + " " +
            to_text(arenas[i].size) + ", alive at most " + to_text(arenas[i].live_bound) + "\n";
  return text;
}

/// What is made with windows: the halos that are computed.
std::string halos_text(const Graph& graph, const ShardedGraph& sharded) {
  std::string text;
  for (size_t i = 0; i < sharded.values.size(); ++i)
    if (const ValueId value{static_cast<int>(i)}; sharded.of(value).has_windows())
      text += graph.value(value).name + " " + to_text(graph.type(value), sharded.of(value)) + "\n";
  return text.empty() ? "no halo is computed\n" : text;
}

std::string copies_text(const Program& program) {
  std::string text;
  const auto name = [&](RegisterIndex reg) { return program.registers[reg].name.with("i"); };
  IndexedVector<InstructionIndex, bool> is_known(program.instructions.size(), false);
  for (const InstructionInstance& instance : instances(program)) {
    const CopyStep* copy = program.instructions[instance.instruction].copy();
    if (!copy || is_known[instance.instruction]) continue;
    is_known[instance.instruction] = true;
    text += name(copy->target) + " = copy(" + name(copy->source) + ")\n";
  }
  return text.empty() ? "no value is on a device\n" : text;
}

/// The exchanges of the optimizer that come before the end of the backward.
std::string buckets_text(const Program& program) {
  std::string text, behind;  // behind the last instruction of the backward that was found
  for (const InstructionInstance& instance : instances(program)) {
    const Instruction& instruction = program.instructions[instance.instruction];
    if (instruction.role == Role::kBackward) text += std::exchange(behind, "");
    const ExchangeStep* exchange = instruction.exchange();
    if (exchange && instruction.role == Role::kOptimizer && instance.micro_batch < 0)
      behind += program.registers[exchange->target()].name + " " +
                to_text(exchange->exchange().to) + "\n";
  }
  return text.empty() ? "no overlap of gradient all-reduce with backward\n" : text;
}

std::vector<std::string> names_of(const Meshes& meshes) {
  std::vector<std::string> names;
  for (const NamedMesh& mesh : meshes) names.push_back(mesh.name);
  return names;
}

void check_divides(const Graph& graph, const Plan& plan) {
  const int64_t count = plan.micro_batches;
  for (ValueId input : graph.inputs()) {
    const Shape& shape = graph.type(input).shape;
    if (shape.empty() || shape[0] % count == 0) continue;
    std::vector<std::string> divisors;
    for (int64_t d = 1; d <= shape[0]; ++d)
      if (shape[0] % d == 0) divisors.push_back(std::to_string(d));
    throw UserError(std::to_string(count) + " micro-batches do not divide the batch of " +
                        std::to_string(shape[0]) + " rows",
                    "each micro-batch has as many rows",
                    (plan.accumulate > 1 ? "set accumulate times micro_batches to one of "
                                         : "set micro_batches to one of ") +
                        join(divisors, ", "),
                    ExitCode::kBadConfig);
  }
}

/// Of the stages there, "first+last"; then those of the hosts of devices.
MeshNames mesh_names(const Program& program, const Meshes& meshes) {
  MeshNames names;
  for (StageIndex stage : program.mesh_of_stage.indices()) {
    const MeshIndex mesh = program.mesh_of_stage[stage];
    if (!names.contains(mesh)) names.resize(mesh.value() + 1);
    names[mesh] += (names[mesh].empty() ? "" : "+") + meshes[stage.value()].name;
  }
  return with_host_names(program, std::move(names));
}

/// What the passes share: the inputs of the compiler, and what was made so far.
struct CompilerState {
  const Graph& serial;  // as it was given; the passes behind the rewrites read result.graph
  const Plan& plan;
  const CompileOptions& options;
  const Meshes meshes = plan.placed();
  const ReshardOptions reshard = {plan.cost.links, plan.all_reduce};
  RewriteBounds bounds = {};   // of `serial`
  Recompute recompute = {};    // of the plan, with "auto" decided
  MeshAssignment stages = {};  // of result.graph; empty with resolved shardings, which say them
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
Meshes meshes_in_time(const CompilerState& state) {
  const int64_t count = state.plan.micro_batches;
  return count > 1 ? with_micro_batches(state.meshes, count) : state.meshes;
}

std::string program_text(const CompilerState& state) {
  return to_text(state.program);
}

// ---- before graph_passes() (rewrite/rewrite.h), which rewrite the serial graph ----

constexpr CompilerPass kSerialPasses[] = {
    {"serial",
     [](CompilerState& s) {
       if (s.options.verify) verify(s.serial);
       check_divides(s.serial, s.plan);
     },
     [](const CompilerState& s) { return to_text(s.serial); }},
};

// ---- passes that decide the placement of every value and op ----

constexpr CompilerPass kPlacementPasses[] = {
    {"propagate",
     [](CompilerState& s) {
       const Meshes meshes = meshes_in_time(s);
       s.result.sharded = s.plan.shardings ? place(s.result.graph, meshes, *s.plan.shardings,
                                                   s.options.section, s.options.rules)
                                           : propagate(s.result.graph, meshes, s.plan.marks,
                                                       s.options.rules, s.stages);
     },
     [](const CompilerState& s) { return print_placements(s.result.graph, s.result.sharded); }},
    {"halos",
     [](CompilerState& s) {
       if (s.plan.shardings) return;  // they say which halos are computed
       s.result.sharded = choose_halos(s.result.graph, std::move(s.result.sharded), s.plan.marks,
                                       {s.plan.halos, s.plan.cost, s.plan.all_reduce});
     },
     [](const CompilerState& s) { return halos_text(s.result.graph, s.result.sharded); }, true},
    {"sum-chains",
     [](CompilerState& s) {
       if (s.plan.shardings) return;  // they say where sums are reduced
       s.sum_chains = reduce_sums_once(s.result.graph, s.result.sharded, s.plan.marks);
     },
     [](const CompilerState& s) {
       return s.sum_chains.empty() ? "no sums are reduced together\n" : s.sum_chains;
     },
     true},
};

// ---- passes over the program: local kernels and exchanges ----

constexpr CompilerPass kProgramPasses[] = {
    {"partition",
     [](CompilerState& s) {
       const PartitionOptions how{s.plan.micro_batches, s.reshard, lower_control};
       s.program = partition(s.result.graph, s.result.sharded, s.meshes, how);
       s.result.mesh_of_stage = s.program.mesh_of_stage;
     },
     program_text},
    {"in-place", [](CompilerState& s) { update_variables_in_place(s.program); }, program_text},
    {"order",
     [](CompilerState& s) {
       const OrderOptions how{s.plan.micro_batches, s.plan.schedule, s.plan.max_in_flight,
                              s.plan.cost};
       s.result.pipeline = order_instructions(s.program, s.result.graph, how);
     },
     [](const CompilerState& s) {
       const std::vector<std::string> names = names_of(s.meshes);
       return order_text(s.program, names) +
              (s.result.pipeline ? worth_text(*s.result.pipeline, names) : "");
     }},
    {"collective-matmul",
     [](CompilerState& s) {
       s.collective_matmuls =
           decompose_collective_matmuls(s.program, s.plan.collective_matmul, s.plan.cost);
     },
     [](const CompilerState& s) {
       return s.collective_matmuls.empty() ? "no matmul is decomposed\n" : s.collective_matmuls;
     },
     true},
    {"buckets", [](CompilerState& s) { exchange_in_buckets(s.program, s.plan.bucket); },
     [](const CompilerState& s) { return buckets_text(s.program); }, true},
    {"combine",
     [](CompilerState& s) { combine_exchanges(s.program, {.optimizer = s.plan.bucket}); },
     [](const CompilerState& s) { return combine_text(s.program); }, true},
    {"copies",
     [](CompilerState& s) {
       add_device_copies(s.program, devices_of(s.program, s.meshes));
       s.result.mesh_names = mesh_names(s.program, s.meshes);
     },
     [](const CompilerState& s) { return copies_text(s.program); }},
    {"offload",
     [](CompilerState& s) {
       offload_variables(s.program, offloaded_variables(s.result.graph, s.plan.offload),
                         s.plan.offload_window);
       s.result.mesh_names = with_file_names(s.program, std::move(s.result.mesh_names));
     },
     [](const CompilerState& s) { return offload_text(s.program); }},
    {"prefetch", [](CompilerState& s) { schedule_prefetches(s.program, s.plan.prefetch_window); },
     [](const CompilerState& s) { return prefetch_text(s.program); }, true},
};

// ---- passes that plan memory and make the task graph ----

constexpr CompilerPass kArenaPass = {
    "arena", [](CompilerState& s) { s.result.arenas = plan_arenas(s.program); },
    [](const CompilerState& s) { return arena_text(s.result); }};

constexpr CompilerPass kTaskPasses[] = {
    {"unroll", [](CompilerState& s) { s.program = unroll(std::move(s.program)); },
     [](const CompilerState& s) {
       return std::to_string(s.program.instructions.size()) + " instructions, " +
              std::to_string(s.program.registers.size()) + " registers\n";
     }},
    {"tasks",
     [](CompilerState& s) {
       const TaskGroups groups(s.result.graph, s.plan.tasks);
       s.result.tasks = make_tasks(std::move(s.program), s.result.arenas, groups);
     },
     [](const CompilerState& s) { return to_text(s.result.tasks); }},
    {"check",
     [](CompilerState& s) {
       check(s.result.tasks);
       check_run(s.result.tasks, ranks(s.result.tasks));
     },
     [](const CompilerState&) { return std::string("every promise of the task graph holds\n"); }},
    {"placements",
     [](CompilerState& s) {
       check_placements(s.result.graph, s.result.tasks, s.plan.micro_batches);
     },
     [](const CompilerState&) {
       return std::string("every register holds its part of the serial value\n");
     },
     true},
};

/// Calls visit(name, is optional) for each pass in order.
template <class Visit>
void for_each_pass(const Visit& visit) {
  for (const CompilerPass& pass : kSerialPasses) visit(pass.name, pass.is_optional);
  for (const GraphPass& pass : graph_passes()) visit(pass.name, true);
  for (const CompilerPass& pass : kPlacementPasses) visit(pass.name, pass.is_optional);
  for (const CompilerPass& pass : kProgramPasses) visit(pass.name, pass.is_optional);
  visit(kArenaPass.name, kArenaPass.is_optional);
  for (const CompilerPass& pass : kTaskPasses) visit(pass.name, pass.is_optional);
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

/// Decides what recompute "auto" computes again, from the placements without it.
///   requires  the bounds have the stages of the ops
void decide_recompute(CompilerState& state) {
  state.recompute = state.plan.recompute;
  if (state.recompute.kind != Recompute::Kind::kAuto) return;
  check_decides_recompute(state.plan);
  const Rewritten rewritten = rewritten_graph(state);
  const ShardedGraph sharded =
      propagate(rewritten.made.graph, meshes_in_time(state), state.plan.marks, state.options.rules,
                assignment_after(state.stages, rewritten.made));
  state.recompute =
      decide_recompute(RecomputeRequest{rewritten.made.graph, sharded, state.plan}).recompute;
}

/// Runs the passes over the serial graph. The stages of the ops are those of the graph before them.
void rewrite_graph(CompilerState& state) {
  if (state.plan.shardings) {
    SerialDecisions serial =
        serial_decisions(state.serial, state.meshes, *state.plan.shardings, state.options.section);
    state.bounds = {std::move(serial.stages), std::move(serial.kept)};
  } else {
    state.stages = assign_meshes(state.serial, state.meshes, state.plan.marks);
    state.bounds = {state.stages.ops, ops_kept_by(state.serial, state.plan.marks)};
  }
  decide_recompute(state);
  state.bounds.recomputed = recomputed_values(state.serial, state.recompute);
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

void run_placement_passes(CompilerState& state) {
  for (const CompilerPass& pass : kSerialPasses) run_pass(pass, state);
  rewrite_graph(state);
  for (const CompilerPass& pass : kPlacementPasses) run_pass(pass, state);
}

/// Checks the task graph that the program would become if `pass` were the last pass over it.
///   throws  InternalError that names the pass
void verify_tasks_after(const CompilerPass& pass, const CompilerState& state) {
  try {
    Program program = state.program;
    const ArenaPlans arenas = plan_arenas(program);
    const TaskGraph tasks = make_tasks(unroll(std::move(program)), arenas);
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
  for (const CompilerPass& pass : kProgramPasses) {
    run_pass(pass, state);
    if (state.options.verify) verify(state.program, pass.name);
    is_complete = is_complete || pass.name == "in-place";
    if (state.options.verify_passes && is_complete) verify_tasks_after(pass, state);
  }
}

/// Of what a step executes, and where its tasks end.
uint64_t hash_of(const Program& program, const Plan& plan) {
  Hasher hasher;
  hasher.add(stable_hash(to_text(program)));
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
  PlannedMemory memory{{}, rewritten_fingerprint(state.result), 0};
  TaskGraph& graph = memory.graph;
  graph.meshes = program.meshes;
  graph.devices = program.devices;
  for (const ArenaPlan& arena : state.result.arenas) graph.arenas.push_back(arena.size);
  for (const TaskVariable& variable : program.variables) {
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

}  // namespace

RewrittenFingerprint rewritten_fingerprint(const Compiled& compiled) {
  std::vector<std::string> passes;
  for (const PassReport& ran : compiled.passes)
    for (const GraphPass& pass : graph_passes())
      if (pass.name == ran.name) passes.emplace_back(pass.name);
  return rewritten_fingerprint(compiled.graph, std::move(passes));
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
                                   const CompileOptions& options, const CompileGates& gates) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  if (gates.placed && !gates.placed(state.result)) return std::nullopt;
  run_program_passes(state);
  run_pass(kArenaPass, state);
  if (gates.in_memory && !gates.in_memory(planned_memory(state))) return std::nullopt;
  for (const CompilerPass& pass : kTaskPasses) run_pass(pass, state);
  note_other_passes(state);
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

ShardingSection resolved_section(const Graph& graph, const Plan& plan,
                                 const CompileOptions& options, std::string_view name,
                                 const Shardings& known) {
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  ShardingSection section = resolve(state.result.graph, state.result.sharded, name, known);
  const SerialDecisions serial{std::move(state.bounds.stages), std::move(state.bounds.kept)};
  resolve_serial(graph, serial, state.meshes, name, known, section);
  return section;
}

Plan with_decided_recompute(const Graph& graph, Plan plan, const CompileOptions& options) {
  if (plan.recompute.kind != Recompute::Kind::kAuto) return plan;
  check_disabled(plan.disabled_passes);
  CompilerState state{graph, plan, options};
  run_placement_passes(state);
  plan.recompute = state.recompute;
  return plan;
}

Plan resolved(const Graph& graph, Plan plan, const CompileOptions& options) {
  plan = with_decided_recompute(graph, std::move(plan), options);
  const std::string name(options.section);
  Shardings shardings;
  shardings.sections.emplace_back(name, resolved_section(graph, plan, options, name));
  plan.shardings = std::move(shardings);
  plan.marks.clear();
  return plan;
}

}  // namespace tessera
