#include "lower/passes/order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>

#include "lower/program_uses.h"
#include "ops/operator.h"

namespace tessera {
namespace {

/// By instruction: the instructions that write what it reads; and, of one that writes over a
/// variable, those that read the old value.
std::vector<std::vector<int>> find_needs(const Program& program) {
  const ProgramUses uses(program);
  std::vector<std::vector<int>> needs;
  for (InstructionIndex i : program.instructions.indices()) {
    const Instruction& instruction = program.instructions[i];
    std::vector<int>& list = needs.emplace_back();
    for (RegisterIndex reg : instruction.reads())
      if (!uses.writer(reg).is_none()) list.push_back(uses.writer(reg).value());
    for (RegisterIndex reg : instruction.writes()) {
      const Register& written = program.registers[reg];
      if (written.storage != Register::Storage::kVariable) continue;
      for (InstructionIndex reader : uses.readers(program.variables[written.variable].value))
        if (reader != i) list.push_back(reader.value());
    }
  }
  return needs;
}

/// By stage, a number that it has in common with those that share ranks with it.
std::vector<int> devices_of(const Program& program) {
  std::vector<MeshPtr> meshes;
  for (MeshIndex mesh : program.mesh_of_stage) meshes.push_back(program.meshes[mesh]);
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

  double of(const Instruction& instruction) const {
    const KernelStep* kernel = instruction.kernel();
    const auto found =
        kernel && kernel->purpose == KernelPurpose::kOp ? by_op_.find(kernel->op) : by_op_.end();
    if (found == by_op_.end()) return picoseconds(copies_of(instruction));
    const double micro_batches = instruction.micro_batch >= 0 ? micro_batches_ : 1;
    return found->second * local_part(*kernel) / micro_batches;
  }

 private:
  double picoseconds(const LocalWork& work) const {
    return std::round(compute_price(work, device_).floor.value() * 1e12);
  }

  const Register& at(RegisterIndex reg) const { return program_.registers[reg]; }

  LocalWork copies_of(const Instruction& instruction) const {
    LocalWork work{.operation = OperationClass::kMovement};
    for (RegisterIndex reg : instruction.writes()) work.written += at(reg).size;
    return work;
  }

  /// The smallest part that a rank has of any operand.
  double local_part(const KernelStep& step) const {
    double part = 1;
    for (const auto* list : {&step.inputs, &step.outputs})
      for (RegisterIndex reg : *list)
        if (const double whole = static_cast<double>(byte_size(at(reg).type).value()); whole > 0)
          part = std::min(part, static_cast<double>(at(reg).size.value()) / whole);
    return part;
  }

  const Program& program_;
  const DeviceCost& device_;
  double micro_batches_;
  std::unordered_map<std::string_view, double> by_op_;
};

}  // namespace

std::optional<PipelineOrder> order_instructions(Program& program, const Graph& graph,
                                                const OrderOptions& options) {
  if (options.micro_batches == 1) return std::nullopt;
  std::vector<std::vector<int>> needs = find_needs(program);
  const WorkEstimate estimate(program, graph, options);
  std::vector<PipelineStep> work;
  for (InstructionIndex i : program.instructions.indices()) {
    const Instruction& instruction = program.instructions[i];
    work.push_back({instruction.stage.value(), instruction.role, instruction.micro_batch,
                    std::move(needs[i.value()]), estimate.of(instruction)});
  }
  PipelineOrder made =
      pipeline_order(work, {.kind = options.kind,
                            .micro_batches = static_cast<int>(options.micro_batches),
                            .devices = devices_of(program),
                            .max_in_flight = static_cast<int>(options.max_in_flight),
                            .transfer = options.cost.stage_transfer});
  std::vector<InstructionIndex> order;
  for (int index : made.order) {
    order.push_back(InstructionIndex(index));
    program.instructions[order.back()].pass = made.passes[index];
  }
  reorder(program, order);
  return made;
}

std::string order_text(const Program& program, const std::vector<std::string>& stage_names) {
  std::string text;
  for (StageIndex stage : program.mesh_of_stage.indices()) {
    text += stage_names[stage.value()] + ":";
    std::string last;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.stage != stage) continue;
      const std::string word =
          pass_text(instruction.role, instruction.pass, instruction.micro_batch);
      if (word != last) text += " " + word;
      last = word;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera
