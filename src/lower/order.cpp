#include "lower/order.h"

#include <algorithm>

namespace tessera {
namespace {

/// Indices of the earlier instructions that make what each one reads; and, for one that writes over a variable, those that read its old
/// value.
std::vector<std::vector<int>> find_needs(const Program& program) {
  std::vector<int> maker(program.registers.size(), -1);
  std::vector<std::vector<int>> readers(program.registers.size());
  std::vector<std::vector<int>> needs;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    needs.emplace_back();
    for (RegisterIndex reg : instruction.reads()) {
      if (maker[static_cast<size_t>(reg)] >= 0) needs.back().push_back(maker[static_cast<size_t>(reg)]);
      readers[static_cast<size_t>(reg)].push_back(i);
    }
    for (RegisterIndex reg : instruction.writes()) {
      maker[static_cast<size_t>(reg)] = i;
      const Register& written = program.registers[static_cast<size_t>(reg)];
      if (written.storage != Register::Storage::kVariable) continue;
      for (int reader : readers[static_cast<size_t>(program.variables[static_cast<size_t>(written.variable)].value)])
        if (reader != i) needs.back().push_back(reader);
    }
  }
  return needs;
}

}  // namespace

void order_instructions(Program& program, int64_t micro_batches, PipelineKind kind) {
  if (micro_batches == 1) return;
  std::vector<std::vector<int>> needs = find_needs(program);
  std::vector<PipelineStep> work;
  for (size_t i = 0; i < program.instructions.size(); ++i)
    work.push_back({program.instructions[i].mesh, program.instructions[i].role, program.instructions[i].micro_batch, std::move(needs[i])});
  std::vector<Instruction> ordered;
  for (int index : pipeline_order(work, static_cast<int>(program.meshes.size()), static_cast<int>(micro_batches), kind))
    ordered.push_back(std::move(program.instructions[static_cast<size_t>(index)]));
  program.instructions = std::move(ordered);
}

std::string order_text(const Program& program, const std::vector<std::string>& mesh_names) {
  std::string text;
  for (size_t mesh = 0; mesh < program.meshes.size(); ++mesh) {
    text += mesh_names[mesh] + ":";
    std::string last;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.mesh != static_cast<int>(mesh)) continue;
      std::string word = instruction.role == Role::kForward ? "F" : instruction.role == Role::kBackward ? "B" : "O";
      if (instruction.micro_batch >= 0) word += std::to_string(instruction.micro_batch);
      if (word != last) text += " " + word;
      last = word;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera
