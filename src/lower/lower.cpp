#include "lower/lower.h"

#include <chrono>
#include <map>

#include "actors/run_check.h"
#include "base/error.h"
#include "base/text.h"
#include "lower/partition.h"
#include "lower/passes/device_copies.h"
#include "lower/passes/in_place.h"
#include "lower/passes/order.h"
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
    if (instruction.is_copy)
      text += name(instruction.target) + " = copy(" + name(instruction.source) + ")\n";
  return text.empty() ? "nothing lies on a device\n" : text;
}

/// The exchanges of the optimizer that are done before the backward is over.
std::string moved_text(const Program& program) {
  size_t end = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i)
    if (program.instructions[i].role == Role::kBackward) end = i;
  std::string text;
  for (size_t i = 0; i < end; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.is_exchange && instruction.role == Role::kOptimizer &&
        instruction.micro_batch < 0)
      text += program.registers[instruction.target].name + " " + to_text(instruction.exchange.to) +
              "\n";
  }
  return text.empty() ? "no gradient travels before the end of the backward\n" : text;
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
  options.most_kept = plan.max_in_flight;
  options.reshard.sums = plan.all_reduce;
  options.split_matmuls.stripes = plan.collective_matmul;
  options.overlap = Bytes(plan.prefetch_mib << 20);
}

}  // namespace

Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  Compiled result;
  Program program;
  const auto stage = [&](std::string_view name, const auto& work, const auto& text) {
    const auto start = std::chrono::steady_clock::now();
    work();
    result.stages.push_back(
        {name,
         Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())});
    if (options.dump) options.dump(name, text());
  };

  stage("serial", [&] { verify(graph); }, [&] { return to_text(graph); });
  const int64_t count = options.micro_batches;
  check_divides(graph, count);
  stage(
      "propagate",
      [&] {
        result.sharded = propagate(graph, count > 1 ? with_micro_batches(meshes, count) : meshes,
                                   marks, options.rules);
      },
      [&] { return print_placements(graph, result.sharded); });
  stage(
      "halos",
      [&] {
        result.sharded = choose_halos(graph, std::move(result.sharded), marks, options.halos);
      },
      [&] { return halos_text(graph, result.sharded); });
  stage(
      "partition",
      [&] { program = partition(graph, result.sharded, meshes, count, options.reshard); },
      [&] { return to_text(program); });
  result.mesh_of_stage = program.mesh_of_stage;
  stage("in-place", [&] { update_variables_in_place(program); }, [&] { return to_text(program); });
  std::optional<PipelineOrder> pipeline;
  stage(
      "order",
      [&] {
        pipeline = order_instructions(program, graph, {count, options.schedule, options.most_kept});
      },
      [&] {
        return order_text(program, names_of(meshes)) +
               (pipeline ? worth_text(*pipeline, names_of(meshes)) : "");
      });
  std::string split;
  stage(
      "split-matmuls",
      [&] { split = split_matmuls(program, options.split_matmuls, options.reshard); },
      [&] { return split.empty() ? std::string("no product is taken apart\n") : split; });
  stage(
      "buckets", [&] { exchange_in_buckets(program, options.bucket); },
      [&] { return moved_text(program); });
  stage(
      "copies", [&] { add_device_copies(program, devices_of(program, meshes)); },
      [&] { return copies_text(program); });
  result.mesh_names = mesh_names(program, meshes);
  stage(
      "overlap", [&] { overlap_exchanges(program, options.overlap); },
      [&] { return overlap_text(program); });
  stage("arena", [&] { result.arenas = plan_arenas(program); }, [&] { return arena_text(result); });
  stage(
      "tasks", [&] { result.tasks = make_tasks(std::move(program), result.arenas); },
      [&] { return to_text(result.tasks); });
  stage(
      "check",
      [&] {
        check(result.tasks);
        check_run(result.tasks, ranks(result.tasks));
      },
      [&] { return std::string("every promise of the task graph holds\n"); });
  if (options.check_placements)
    stage(
        "placements", [&] { check_placements(graph, result.tasks, count); },
        [&] { return std::string("every register stands for its part of the serial value\n"); });
  return result;
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
