#include "lower/lower.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "actors/run_check.h"
#include "base/error.h"
#include "base/text.h"
#include "lower/make_tasks.h"
#include "lower/partition.h"
#include "lower/passes/device_copies.h"
#include "lower/passes/in_place.h"
#include "lower/passes/order.h"
#include "lower/region.h"
#include "lower/task_groups.h"
#include "placement_check/placement_check.h"
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
  const auto name = [&](RegisterIndex reg) { return program.registers[reg].name; };
  for (const Instruction& instruction : program.instructions)
    if (const CopyStep* copy = instruction.copy())
      text += name(copy->target) + " = copy(" + name(copy->source) + ")\n";
  return text.empty() ? "no value is on a device\n" : text;
}

/// The exchanges of the optimizer that come before the end of the backward.
std::string buckets_text(const Program& program) {
  InstructionIndex end(0);
  for (InstructionIndex i : program.instructions.indices())
    if (program.instructions[i].role == Role::kBackward) end = i;
  std::string text;
  for (InstructionIndex i : IndexRange(InstructionIndex(0), end)) {
    const Instruction& instruction = program.instructions[i];
    const ExchangeStep* exchange = instruction.exchange();
    if (exchange && instruction.role == Role::kOptimizer && instruction.micro_batch < 0)
      text +=
          program.registers[exchange->target].name + " " + to_text(exchange->exchange.to) + "\n";
  }
  return text.empty() ? "no overlap of gradient all-reduce with backward\n" : text;
}

std::vector<std::string> names_of(const Meshes& meshes) {
  std::vector<std::string> names;
  for (const NamedMesh& mesh : meshes) names.push_back(mesh.name);
  return names;
}

void check_divides(const Graph& graph, int64_t count) {
  for (ValueId input : graph.inputs()) {
    const Shape& shape = graph.type(input).shape;
    if (shape.empty() || shape[0] % count == 0) continue;
    std::vector<std::string> divisors;
    for (int64_t d = 1; d <= shape[0]; ++d)
      if (shape[0] % d == 0) divisors.push_back(std::to_string(d));
    throw UserError(std::to_string(count) + " micro-batches do not divide the batch of " +
                        std::to_string(shape[0]) + " rows",
                    "each micro-batch has as many rows",
                    "set micro_batches to one of " + join(divisors, ", "), ExitCode::kBadConfig);
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

/// Sets what the plan decides.
void decide(const Plan& plan, CompileOptions& options) {
  options.micro_batches = plan.micro_batches;
  options.schedule = plan.schedule;
  options.max_in_flight = plan.max_in_flight;
  options.reshard.all_reduce = plan.all_reduce;
  options.collective_matmul.chunks = plan.collective_matmul;
  options.prefetch_window = Bytes(plan.prefetch_mib << 20);
  options.tasks = plan.tasks;
}

/// What the passes share: the inputs of the compiler, and what was made so far.
struct CompilerState {
  const Graph& graph;
  const Meshes& meshes;
  const std::vector<Mark>& marks;
  const CompileOptions& options;
  Program program = {};
  std::optional<PipelineOrder> pipeline = std::nullopt;
  std::string collective_matmuls = {};  // a line each
  Compiled result = {};
};

struct CompilerPass {
  std::string_view name;
  void (*run)(CompilerState& state);
  std::string (*text)(const CompilerState& state);  // of what it made
  bool is_optional = false;                         // without it the result computes the same
};

std::string program_text(const CompilerState& state) {
  return to_text(state.program);
}

// ---- passes that decide the placement of every value and op ----

constexpr CompilerPass kPlacementPasses[] = {
    {"serial",
     [](CompilerState& s) {
       verify(s.graph);
       check_divides(s.graph, s.options.micro_batches);
     },
     [](const CompilerState& s) { return to_text(s.graph); }},
    {"propagate",
     [](CompilerState& s) {
       const int64_t count = s.options.micro_batches;
       const Meshes meshes = count > 1 ? with_micro_batches(s.meshes, count) : s.meshes;
       s.result.sharded = propagate(s.graph, meshes, s.marks, s.options.rules);
     },
     [](const CompilerState& s) { return print_placements(s.graph, s.result.sharded); }},
    {"halos",
     [](CompilerState& s) {
       s.result.sharded =
           choose_halos(s.graph, std::move(s.result.sharded), s.marks, s.options.halos);
     },
     [](const CompilerState& s) { return halos_text(s.graph, s.result.sharded); }, true},
};

// ---- passes over the program: local kernels and exchanges ----

constexpr CompilerPass kProgramPasses[] = {
    {"partition",
     [](CompilerState& s) {
       const PartitionOptions how{s.options.micro_batches, s.options.reshard, lower_control};
       s.program = partition(s.graph, s.result.sharded, s.meshes, how);
       s.result.mesh_of_stage = s.program.mesh_of_stage;
     },
     program_text},
    {"in-place", [](CompilerState& s) { update_variables_in_place(s.program); }, program_text},
    {"order",
     [](CompilerState& s) {
       const OrderOptions how{s.options.micro_batches, s.options.schedule, s.options.max_in_flight};
       s.pipeline = order_instructions(s.program, s.graph, how);
     },
     [](const CompilerState& s) {
       const std::vector<std::string> names = names_of(s.meshes);
       return order_text(s.program, names) + (s.pipeline ? worth_text(*s.pipeline, names) : "");
     }},
    {"collective-matmul",
     [](CompilerState& s) {
       s.collective_matmuls =
           decompose_collective_matmuls(s.program, s.options.collective_matmul, s.options.reshard);
     },
     [](const CompilerState& s) {
       return s.collective_matmuls.empty() ? "no matmul is decomposed\n" : s.collective_matmuls;
     },
     true},
    {"buckets", [](CompilerState& s) { exchange_in_buckets(s.program, s.options.bucket); },
     [](const CompilerState& s) { return buckets_text(s.program); }, true},
    {"copies",
     [](CompilerState& s) {
       add_device_copies(s.program, devices_of(s.program, s.meshes));
       s.result.mesh_names = mesh_names(s.program, s.meshes);
     },
     [](const CompilerState& s) { return copies_text(s.program); }},
    {"prefetch",
     [](CompilerState& s) { schedule_prefetches(s.program, s.options.prefetch_window); },
     [](const CompilerState& s) { return prefetch_text(s.program); }, true},
};

// ---- passes that plan memory and make the task graph ----

constexpr CompilerPass kTaskPasses[] = {
    {"arena", [](CompilerState& s) { s.result.arenas = plan_arenas(s.program); },
     [](const CompilerState& s) { return arena_text(s.result); }},
    {"tasks",
     [](CompilerState& s) {
       const TaskGroups groups(s.graph, s.options.tasks);
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
     [](CompilerState& s) { check_placements(s.graph, s.result.tasks, s.options.micro_batches); },
     [](const CompilerState&) {
       return std::string("every register holds its part of the serial value\n");
     },
     true},
};

template <class Visit>
void for_each_pass(const Visit& visit) {
  for (const CompilerPass& pass : kPlacementPasses) visit(pass);
  for (const CompilerPass& pass : kProgramPasses) visit(pass);
  for (const CompilerPass& pass : kTaskPasses) visit(pass);
}

void check_disabled(const std::vector<std::string>& disabled) {
  std::vector<std::string> optional;
  for_each_pass([&](const CompilerPass& pass) {
    if (pass.is_optional) optional.emplace_back(pass.name);
  });
  for (const std::string& name : disabled)
    if (std::find(optional.begin(), optional.end(), name) == optional.end())
      throw UserError("the compiler pass '" + name + "' cannot be disabled",
                      "the result needs it, or there is no such pass",
                      "disable one of " + join(optional, ", "), ExitCode::kBadConfig);
}

bool is_enabled(const CompilerPass& pass, const CompileOptions& options) {
  const auto& disabled = options.disabled_passes;
  if (pass.name == "placements" && !options.check_placements) return false;
  return std::find(disabled.begin(), disabled.end(), pass.name) == disabled.end();
}

/// Runs one pass, times it, and hands its text form to the caller's dump.
void run_pass(const CompilerPass& pass, CompilerState& state) {
  if (!is_enabled(pass, state.options)) return;
  const auto start = std::chrono::steady_clock::now();
  pass.run(state);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  state.result.passes.push_back({pass.name, Seconds(time.count())});
  if (state.options.dump) state.options.dump(pass.name, pass.text(state));
}

}  // namespace

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for_each_pass([&](const CompilerPass& pass) { names.push_back(pass.name); });
  return names;
}

Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  check_disabled(options.disabled_passes);
  CompilerState state{graph, meshes, marks, options};
  for (const CompilerPass& pass : kPlacementPasses) run_pass(pass, state);
  for (const CompilerPass& pass : kProgramPasses) {
    run_pass(pass, state);
    verify(state.program, pass.name);
  }
  for (const CompilerPass& pass : kTaskPasses) run_pass(pass, state);
  return std::move(state.result);
}

Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  return compile(graph, one_mesh(std::move(mesh)), marks, options);
}

Compiled compile(const Graph& graph, const Plan& plan, CompileOptions options) {
  decide(plan, options);
  return compile(graph, plan.placed(), plan.marks, options);
}

CompileOptions compile_options(const Plan& plan) {
  CompileOptions options;
  decide(plan, options);
  return options;
}

}  // namespace tessera
