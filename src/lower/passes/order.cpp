#include "lower/passes/order.h"

#include <algorithm>
#include <map>

#include "ops/operator.h"

namespace tessera {
namespace {

/// Indices of the earlier instructions that make what each one reads; and, for one that writes over
/// a variable, those that read its old value.
std::vector<std::vector<int>> find_needs(const Program& program) {
  IndexedVector<RegisterIndex, int> maker(program.registers.size(), -1);
  IndexedVector<RegisterIndex, std::vector<int>> readers(program.registers.size());
  std::vector<std::vector<int>> needs;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    needs.emplace_back();
    for (RegisterIndex reg : instruction.reads()) {
      if (maker[reg] >= 0) needs.back().push_back(maker[reg]);
      readers[reg].push_back(i);
    }
    for (RegisterIndex reg : instruction.writes()) {
      maker[reg] = i;
      const Register& written = program.registers[reg];
      if (written.storage != Register::Storage::kVariable) continue;
      for (int reader : readers[program.variables[written.variable].value])
        if (reader != i) needs.back().push_back(reader);
    }
  }
  return needs;
}

bool share_ranks(const Mesh& a, const Mesh& b) {
  return std::any_of(a.ranks().begin(), a.ranks().end(), [&](Rank rank) {
    return std::find(b.ranks().begin(), b.ranks().end(), rank) != b.ranks().end();
  });
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

/// How long instructions take, in arithmetic operations: one byte of memory traffic counts as four
/// of them.
class WorkEstimate {
 public:
  WorkEstimate(const Program& program, const Graph& graph, int64_t micro_batches)
      : program_(program), micro_batches_(micro_batches) {
    for (const Op& op : graph.ops()) {
      const OpView op_view = view(graph, op);
      if (!op_view.definition->work) continue;
      const Work work = op_view.definition->work(op_view);
      by_op_[op.name] = std::max(work.flops.value(),
                                 kOperationsOfAByte * static_cast<double>(work.bytes.value()));
    }
  }

  double of(const Instruction& instruction) const {
    const auto found = instruction.is_exchange ? by_op_.end() : by_op_.find(instruction.step.op);
    if (found == by_op_.end()) return kOperationsOfAByte * local_bytes(instruction);
    return found->second * local_part(instruction) /
           static_cast<double>(instruction.micro_batch >= 0 ? micro_batches_ : 1);
  }

 private:
  static constexpr double kOperationsOfAByte = 4;

  const Register& at(RegisterIndex reg) const { return program_.registers[reg]; }

  double local_bytes(const Instruction& instruction) const {
    double bytes = 0;
    for (RegisterIndex reg : instruction.writes())
      bytes += static_cast<double>(at(reg).size.value());
    return bytes;
  }

  /// The smallest part that a rank has of any operand.
  double local_part(const Instruction& instruction) const {
    double part = 1;
    for (const auto& list : {instruction.step.inputs, instruction.step.outputs})
      for (RegisterIndex reg : list)
        if (const double whole = static_cast<double>(byte_size(at(reg).type).value()); whole > 0)
          part = std::min(part, static_cast<double>(at(reg).size.value()) / whole);
    return part;
  }

  const Program& program_;
  int64_t micro_batches_;
  std::map<std::string, double, std::less<>> by_op_;
};

}  // namespace

std::optional<PipelineOrder> order_instructions(Program& program, const Graph& graph,
                                                const OrderOptions& options) {
  if (options.micro_batches == 1) return std::nullopt;
  std::vector<std::vector<int>> needs = find_needs(program);
  const WorkEstimate estimate(program, graph, options.micro_batches);
  std::vector<PipelineStep> work;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    work.push_back({instruction.stage.value(), instruction.role, instruction.micro_batch,
                    std::move(needs[i]), estimate.of(instruction)});
  }
  PipelineOrder made =
      pipeline_order(work, {.kind = options.kind,
                            .micro_batches = static_cast<int>(options.micro_batches),
                            .devices = devices_of(program),
                            .max_in_flight = static_cast<int>(options.max_in_flight)});
  std::vector<Instruction> ordered;
  for (int index : made.order) {
    ordered.push_back(std::move(program.instructions[index]));
    ordered.back().pass = made.passes[index];
  }
  program.instructions = std::move(ordered);
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
