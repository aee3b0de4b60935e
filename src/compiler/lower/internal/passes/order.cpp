#include "compiler/lower/internal/passes/order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/program_uses.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

/// The instances that write what one of them reads; and, of one that writes over a variable, those
/// that read the old value.
std::vector<int> needs_of(const Program& program, const InstanceUses& uses, Time time) {
  const auto& [index, micro_batch, pass, issue_after] = uses.order()[time];
  const Instruction& instruction = program.instructions[index];
  const RegisterInstances& registers = uses.registers();
  std::vector<int> needs;
  registers.for_each_read(instruction, micro_batch, [&](RegisterIndex reg) {
    if (const Time writer = uses.writer(reg); !writer.is_none()) needs.push_back(writer.value());
  });
  registers.for_each_written(instruction, micro_batch, [&](RegisterIndex reg) {
    const RegisterForm& written = program.registers[registers.form_of(reg)];
    if (registers.is_in_arena(program, reg)) return;
    const RegisterFormIndex value = program.variables[written.variable].value;
    for (Time reader : uses.readers(registers.whole(value)))
      if (uses.order()[reader].instruction != index) needs.push_back(reader.value());
  });
  return needs;
}

bool is_view(const Program& program, StageIndex stage) {
  return program.viewed_stage[stage] != stage;
}

/// By stage, a number that it has in common with those that share ranks with it.
std::vector<int> devices_of(const Program& program) {
  std::vector<MeshPtr> meshes;
  for (StageIndex stage : program.mesh_of_stage.indices())
    if (!is_view(program, stage)) meshes.push_back(program.meshes[program.mesh_of_stage[stage]]);
  std::vector<int> device(meshes.size());
  int count = 0;
  for (size_t i = 0; i < meshes.size(); ++i) {
    device[i] = count++;
    for (size_t j = 0; j < i; ++j) {
      if (device[j] == device[i] || !share_ranks(*meshes[i], *meshes[j])) continue;
      const int from = device[i], to = device[j];
      for (size_t k = 0; k <= i; ++k)
        if (device[k] == from) device[k] = to;
    }
  }
  std::map<int, int> numbers;  // without gaps
  for (int& d : device) d = numbers.emplace(d, static_cast<int>(numbers.size())).first->second;
  return device;
}

/// How long instructions take, in picoseconds. They are whole numbers before they are divided, so
/// that sums of equal times are equal in any order.
class WorkEstimate {
 public:
  WorkEstimate(const Program& program, const Graph& graph, const OrderOptions& options)
      : program_(program),
        device_(options.cost.device),
        micro_batches_(static_cast<double>(options.micro_batches)) {
    for (const Op& op : graph.ops()) {
      const OpView op_view = view(graph, op);
      if (!op_view.definition->work) continue;
      const Work work = op_view.definition->work(op_view);
      by_op_[op.name] = picoseconds({.flops = work.flops, .read = work.bytes});
    }
  }

  double seconds(const Instruction& instruction) const {
    const KernelForm* kernel = instruction.kernel();
    const auto found = kernel && kernel->purpose == KernelPurpose::kOp
                           ? by_op_.find(kernel->op.pattern())
                           : by_op_.end();
    if (found == by_op_.end()) return picoseconds(copies_of(instruction));
    const double micro_batches = instruction.micro_batch >= 0 ? micro_batches_ : 1;
    return found->second * local_part(*kernel) / micro_batches;
  }

 private:
  double picoseconds(const LocalWork& work) const {
    return std::round(compute_price(work, device_).floor.value() * 1e12);
  }

  const RegisterForm& at(RegisterFormIndex reg) const { return program_.registers[reg]; }

  LocalWork copies_of(const Instruction& instruction) const {
    LocalWork work{.operation = OperationClass::kMovement};
    for (RegisterFormIndex reg : instruction.writes()) work.written += at(reg).size;
    return work;
  }

  /// The smallest part that a rank has of any operand.
  double local_part(const KernelForm& step) const {
    double part = 1;
    for (const auto* list : {&step.inputs, &step.outputs})
      for (RegisterFormIndex reg : *list)
        if (const double whole = static_cast<double>(byte_size(at(reg).type).value()); whole > 0)
          part = std::min(part, static_cast<double>(at(reg).size.value()) / whole);
    return part;
  }

  const Program& program_;
  const DeviceCost& device_;
  double micro_batches_;
  std::unordered_map<std::string_view, double> by_op_;
};

/// By instruction, the number of its block: the prologue, a pass of a stage, or the epilogue.
/// Blocks are numbered in the order in which they begin. What an instruction reads is in no later
/// block.
IndexedVector<InstructionIndex, int> blocks_of(const Program& program, const InstanceOrder& order) {
  using Block = std::tuple<bool, StageIndex, std::optional<PassKind>>;
  std::map<Block, int> numbers;
  IndexedVector<InstructionIndex, int> blocks(program.instructions.size(), -1);
  bool has_passes = false;  // before the instance
  for (const InstructionInstance& instance : order) {
    const Instruction& instruction = program.instructions[instance.instruction];
    has_passes = has_passes || instruction.pass;
    const Block block{has_passes,
                      instruction.pass ? program.viewed_stage[instruction.stage] : StageIndex(),
                      instruction.pass};
    if (int& number = blocks[instance.instruction]; number < 0)
      number = numbers.emplace(block, static_cast<int>(numbers.size())).first->second;
  }
  // An instruction may be in an earlier block than what it reads, when that block goes on after
  // the other one has begun.
  IndexedVector<RegisterFormIndex, int> made_in(program.registers.size(), 0);
  for (InstructionIndex i : program.instructions.indices()) {
    const Instruction& instruction = program.instructions[i];
    for (RegisterFormIndex reg : instruction.reads()) blocks[i] = std::max(blocks[i], made_in[reg]);
    for (RegisterFormIndex reg : instruction.writes()) made_in[reg] = blocks[i];
  }
  return blocks;
}

/// Sets the pipeline pass of each instruction and the order of the rolled program, and sorts its
/// instructions by block.
///   list  the pieces of work of `made`
void set_order(Program& program, const InstanceOrder& list, const PipelineOrder& made) {
  InstanceOrder& order = program.order;
  order.reserve(static_cast<int>(made.order.size()));
  for (int index : made.order) {
    const InstructionInstance& instance = list[Time(index)];
    order.push_back(instance);
    order.back().pass = program.instructions[instance.instruction].pass = made.passes[index];
  }
  const IndexedVector<InstructionIndex, int> blocks = blocks_of(program, order);
  std::vector<InstructionIndex> sorted;
  for (InstructionIndex i : program.instructions.indices()) sorted.push_back(i);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](InstructionIndex a, InstructionIndex b) { return blocks[a] < blocks[b]; });
  IndexedVector<InstructionIndex, InstructionIndex> places(program.instructions.size());
  InstructionIndex place(0);
  for (InstructionIndex i : sorted) {
    places[i] = place;
    ++place;
  }
  reorder(program, sorted);
  for (InstructionInstance& instance : order) instance.instruction = places[instance.instruction];
}

}  // namespace

std::optional<PipelineOrder> order_instructions(Program& program, const Graph& graph,
                                                const OrderOptions& options) {
  if (!program.rolled) return std::nullopt;
  const InstanceUses uses(program);
  const WorkEstimate estimate(program, graph, options);
  IndexedVector<InstructionIndex, double> times;
  for (const Instruction& instruction : program.instructions)
    times.push_back(estimate.seconds(instruction));
  std::vector<PipelineStep> work;
  work.reserve(uses.order().size());
  for (Time time : uses.order().indices()) {
    const InstructionInstance& instance = uses.order()[time];
    const Instruction& instruction = program.instructions[instance.instruction];
    work.push_back({program.viewed_stage[instruction.stage].value(), instruction.role,
                    instance.micro_batch, needs_of(program, uses, time),
                    times[instance.instruction]});
  }
  PipelineOrder made =
      pipeline_order(work, {.kind = options.kind,
                            .micro_batches = static_cast<int>(options.micro_batches),
                            .devices = devices_of(program),
                            .max_in_flight = static_cast<int>(options.max_in_flight),
                            .transfer = options.cost.stage_transfer,
                            .stage_names = options.stage_names,
                            .name_of_result = [&](int piece) {
                              const auto index = uses.order()[Time(piece)].instruction;
                              const auto writes = program.instructions[index].writes();
                              const std::string& name = program.registers[*writes.begin()].name;
                              return name.substr(0, name.find(" #"));  // without the micro-batch
                            }});
  set_order(program, uses.order(), made);
  return made;
}

std::string order_text(const Program& program, const std::vector<std::string>& stage_names) {
  const InstanceOrder order = instances(program);
  std::string text;
  for (StageIndex stage : program.mesh_of_stage.indices()) {
    if (is_view(program, stage)) continue;
    text += stage_names[stage.value()] + ":";
    std::string last;
    for (const InstructionInstance& instance : order) {
      const Instruction& instruction = program.instructions[instance.instruction];
      if (program.viewed_stage[instruction.stage] != stage) continue;
      const bool is_prologue = !instance.pass && instance.micro_batch >= 0;
      const std::string word =
          is_prologue ? "prologue"
                      : pass_text(instruction.role, instance.pass, instance.micro_batch);
      if (word != last) text += " " + word;
      last = word;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera
