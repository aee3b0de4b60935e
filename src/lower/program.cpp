#include "lower/program.h"

#include "base/text.h"

namespace tessera {
namespace {

const Register& at(const Program& program, RegisterIndex reg) {
  return program.registers[reg];
}

std::string names(const Program& program, const std::vector<RegisterIndex>& list) {
  std::vector<std::string> texts;
  for (RegisterIndex reg : list) texts.push_back(at(program, reg).name);
  return join(texts, ", ");
}

std::string types(const Program& program, const std::vector<RegisterIndex>& list) {
  std::vector<std::string> texts;
  for (RegisterIndex reg : list)
    texts.push_back(to_text(at(program, reg).type, at(program, reg).attr));
  return join(texts, ", ");
}

/// " in place of w": the results that are written over a variable.
std::string place_text(const Program& program, const std::vector<RegisterIndex>& outputs) {
  std::string text;
  for (RegisterIndex reg : outputs)
    if (at(program, reg).storage == Register::Storage::kVariable)
      text += " in place of " + program.variables[at(program, reg).variable].name;
  return text;
}

std::string line(const Program& program, const Instruction& instruction) {
  const bool is_kernel = !instruction.is_exchange && !instruction.is_copy;
  const std::vector<RegisterIndex> outputs =
      is_kernel ? instruction.step.outputs : std::vector{instruction.target};
  const std::string what = is_kernel ? instruction.step.call.kernel
                           : instruction.is_exchange
                               ? std::string(to_text(instruction.exchange.kind))
                               : "copy between device and host";
  std::string text = names(program, outputs) + " = " + what + "(" +
                     names(program, instruction.reads()) + "): " + types(program, outputs);
  if (instruction.role != Role::kForward) text += " @" + std::string(to_text(instruction.role));
  text += place_text(program, outputs);
  return text + (instruction.reason.empty() ? "" : " <- " + instruction.reason) + "\n";
}

}  // namespace

std::vector<RegisterIndex> Instruction::reads() const {
  return is_exchange || is_copy ? std::vector{source} : step.inputs;
}

std::vector<RegisterIndex> Instruction::writes() const {
  if (is_exchange || is_copy) return {target};
  std::vector<RegisterIndex> list = step.outputs;
  if (!step.workspace.is_none()) list.push_back(step.workspace);
  return list;
}

std::vector<int> first_readers_of_inputs(const Program& program) {
  IndexedVector<RegisterIndex, int> first(program.registers.size(), 0);
  for (int i = static_cast<int>(program.instructions.size()) - 1; i >= 0; --i)
    for (RegisterIndex reg : program.instructions[i].reads()) first[reg] = i;
  std::vector<int> readers;
  for (const TaskInput& input : program.inputs) readers.push_back(first[input.value]);
  return readers;
}

std::string to_text(const Program& program) {
  std::string text;
  for (const MeshPtr& mesh : program.meshes) text += "mesh " + to_text(*mesh) + "\n";
  for (const TaskInput& input : program.inputs)
    text += "input " + input.name + ": " + types(program, {input.value}) + "\n";
  for (const TaskVariable& variable : program.variables)
    text += "variable " + variable.name + ": " + types(program, {variable.value}) + "\n";
  for (const Instruction& instruction : program.instructions) text += line(program, instruction);
  for (const auto& [name, reg] : program.results)
    text += "output " + name + " = " + names(program, {reg}) + "\n";
  for (size_t v = 0; v < program.variables.size(); ++v)
    if (!program.next[v].is_none())
      text +=
          "next " + program.variables[v].name + " = " + names(program, {program.next[v]}) + "\n";
  return text;
}

}  // namespace tessera
