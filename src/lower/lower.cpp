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
  options.max_in_flight = plan.max_in_flight;
  options.reshard.all_reduce = plan.all_reduce;
  options.collective_matmul.chunks = plan.collective_matmul;
  options.prefetch_window = Bytes(plan.prefetch_mib << 20);
}

/// One run of the compiler: the passes share what they make.
class Compilation {
 public:
  Compilation(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
              const CompileOptions& options)
      : graph_(graph), meshes_(meshes), marks_(marks), options_(options) {}

  Compiled run() {
    place();
    make_program();
    make_task_graph();
    check_task_graph();
    return std::move(result_);
  }

 private:
  /// Runs a pass, times it and hands its text form to the caller's dump.
  template <typename Work, typename Text>
  void pass(std::string_view name, const Work& work, const Text& text) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    result_.stages.push_back({name, Seconds(time.count())});
    if (options_.dump) options_.dump(name, text());
  }

  /// Decides the placement of every value and op.
  void place() {
    const int64_t count = options_.micro_batches;
    ShardedGraph& sharded = result_.sharded;
    const auto text = [&] { return print_placements(graph_, sharded); };
    pass("serial", [&] { verify(graph_); }, [&] { return to_text(graph_); });
    check_divides(graph_, count);
    const Meshes meshes = count > 1 ? with_micro_batches(meshes_, count) : meshes_;
    pass("propagate", [&] { sharded = propagate(graph_, meshes, marks_, options_.rules); }, text);
    pass(
        "halos",
        [&] { sharded = choose_halos(graph_, std::move(sharded), marks_, options_.halos); },
        [&] { return halos_text(graph_, sharded); });
  }

  /// Makes local kernels and exchanges, and orders them.
  void make_program() {
    const int64_t count = options_.micro_batches;
    const auto text = [&] { return to_text(program_); };
    pass(
        "partition",
        [&] { program_ = partition(graph_, result_.sharded, meshes_, count, options_.reshard); },
        text);
    result_.mesh_of_stage = program_.mesh_of_stage;
    pass("in-place", [&] { update_variables_in_place(program_); }, text);
    std::optional<PipelineOrder> pipeline;
    pass(
        "order",
        [&] {
          const OrderOptions how{count, options_.schedule, options_.max_in_flight};
          pipeline = order_instructions(program_, graph_, how);
        },
        [&] {
          return order_text(program_, names_of(meshes_)) +
                 (pipeline ? worth_text(*pipeline, names_of(meshes_)) : "");
        });
  }

  /// Arranges communication, plans memory and cuts the program into tasks.
  void make_task_graph() {
    std::string split;
    pass(
        "split-matmuls",
        [&] {
          split =
              decompose_collective_matmuls(program_, options_.collective_matmul, options_.reshard);
        },
        [&] { return split.empty() ? std::string("no product is taken apart\n") : split; });
    pass(
        "buckets", [&] { exchange_in_buckets(program_, options_.bucket); },
        [&] { return moved_text(program_); });
    pass(
        "copies", [&] { add_device_copies(program_, devices_of(program_, meshes_)); },
        [&] { return copies_text(program_); });
    result_.mesh_names = mesh_names(program_, meshes_);
    pass(
        "overlap", [&] { schedule_prefetches(program_, options_.prefetch_window); },
        [&] { return prefetch_text(program_); });
    pass(
        "arena", [&] { result_.arenas = plan_arenas(program_); },
        [&] { return arena_text(result_); });
    pass(
        "tasks", [&] { result_.tasks = make_tasks(std::move(program_), result_.arenas); },
        [&] { return to_text(result_.tasks); });
  }

  void check_task_graph() {
    const TaskGraph& tasks = result_.tasks;
    pass(
        "check",
        [&] {
          check(tasks);
          check_run(tasks, ranks(tasks));
        },
        [] { return std::string("every promise of the task graph holds\n"); });
    if (!options_.check_placements) return;
    pass(
        "placements", [&] { check_placements(graph_, tasks, options_.micro_batches); },
        [] { return std::string("every register stands for its part of the serial value\n"); });
  }

  const Graph& graph_;
  const Meshes& meshes_;
  const std::vector<Mark>& marks_;
  const CompileOptions& options_;
  Program program_;
  Compiled result_;
};

}  // namespace

Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                 const CompileOptions& options) {
  return Compilation(graph, meshes, marks, options).run();
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
