#include "compiler/lower/internal/compiler_passes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/make_tasks.h"
#include "compiler/lower/internal/passes/combine.h"
#include "compiler/lower/internal/passes/device_copies.h"
#include "compiler/lower/internal/passes/in_place.h"
#include "compiler/lower/internal/passes/offload.h"
#include "compiler/lower/internal/passes/order.h"
#include "compiler/lower/internal/passes/sum_chains.h"
#include "compiler/lower/internal/region.h"
#include "compiler/lower/internal/task_groups.h"
#include "compiler/lower/partition.h"
#include "compiler/placement_check/placement_check.h"
#include "sharding/propagation/axis_levels.h"
#include "sharding/propagation/micro_batches.h"
#include "task_graph/actors/run_check.h"

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
    if (const ValueId value{static_cast<int>(i)}; sharded.at(value).has_windows())
      text += graph.value(value).name + " " + to_text(graph.type(value), sharded.at(value)) + "\n";
  return text.empty() ? "no halo is computed\n" : text;
}

std::string copies_text(const Program& program) {
  std::string text;
  const auto name = [&](RegisterFormIndex reg) { return program.registers[reg].name.with("i"); };
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
  std::string text, after;  // after the last instruction of the backward that was found
  for (const InstructionInstance& instance : instances(program)) {
    const Instruction& instruction = program.instructions[instance.instruction];
    if (instruction.role == Role::kBackward) text += std::exchange(after, "");
    const ExchangeStep* exchange = instruction.exchange();
    if (exchange && instruction.role == Role::kOptimizer && instance.micro_batch < 0)
      after += program.registers[exchange->target()].name + " " + to_text(exchange->exchange().to) +
               "\n";
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

std::string program_text(const CompilerState& state) {
  return to_text(state.program);
}

// ---- before graph_passes() (compiler/rewrite/rewrite.h), which rewrite the serial graph ----

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
       s.result.sharded =
           s.plan.shardings
               ? apply_shardings(s.result.graph, meshes, *s.plan.shardings, s.options.section,
                                 s.options.rules)
               : propagate(s.result.graph, meshes, s.plan.marks, s.options.rules, s.stages);
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
       const LinkCosts& links = s.plan.cost.links;
       s.program = partition(s.result.graph, on_levels(s.result.sharded, links),
                             on_levels(s.meshes, links), how);
       s.result.mesh_of_stage = s.program.mesh_of_stage;
     },
     program_text},
    {"in-place", [](CompilerState& s) { update_variables_in_place(s.program); }, program_text},
    {"order",
     [](CompilerState& s) {
       const OrderOptions how{s.plan.micro_batches, s.plan.schedule, s.plan.max_in_flight,
                              s.plan.cost, names_of(s.meshes)};
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

}  // namespace

Meshes meshes_in_time(const CompilerState& state) {
  const int64_t count = state.plan.micro_batches;
  return count > 1 ? with_micro_batches(state.meshes, count) : state.meshes;
}

std::span<const CompilerPass> serial_passes() {
  return kSerialPasses;
}

std::span<const CompilerPass> placement_passes() {
  return kPlacementPasses;
}

std::span<const CompilerPass> program_passes() {
  return kProgramPasses;
}

const CompilerPass& arena_pass() {
  return kArenaPass;
}

std::span<const CompilerPass> task_passes() {
  return kTaskPasses;
}

}  // namespace tessera
