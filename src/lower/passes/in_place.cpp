#include "lower/passes/in_place.h"

#include <algorithm>

#include "kernels/bind.h"

namespace tessera {
namespace {

/// Index of the last instruction that reads `reg`, or -1.
int last_reader(const Program& program, RegisterIndex reg) {
  for (int i = static_cast<int>(program.instructions.size()) - 1; i >= 0; --i) {
    const auto reads = program.instructions[i].reads();
    if (std::find(reads.begin(), reads.end(), reg) != reads.end()) return i;
  }
  return -1;
}

int writer(const Program& program, RegisterIndex reg) {
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const auto writes = program.instructions[i].writes();
    if (std::find(writes.begin(), writes.end(), reg) != writes.end()) return i;
  }
  return -1;
}

bool may_write_over(const Program& program, RegisterIndex value, RegisterIndex next) {
  const Register& reg = program.registers[next];
  if (reg.storage == Register::Storage::kVariable) return false;  // it is another variable
  const int write = writer(program, next);
  const int read = last_reader(program, value);
  if (write < 0 || read > write) return false;
  const Instruction& instruction = program.instructions[write];
  return read < write || (!instruction.is_exchange && instruction.step.outputs.front() == next &&
                          may_write_over(instruction.step, value, program.kernels.get()));
}

/// Ends the program with a copy of `source` into a new register; `op` is what it is called.
RegisterIndex add_copy(Program& program, RegisterIndex source, Register target, std::string op) {
  Instruction instruction;
  instruction.role = Role::kOptimizer;
  instruction.mesh = target.mesh;
  const RegisterIndex index = program.registers.push_back(std::move(target));
  instruction.step = {{"copy", {}, {}, ""}, {source}, {index}, {}, std::move(op)};
  program.instructions.push_back(std::move(instruction));
  return index;
}

void append_copy(Program& program, size_t variable, RegisterIndex next) {
  Register copy = program.registers[program.variables[variable].value];
  // By the name of what it holds, as resharded copies: "w.next" might be the name of another value.
  copy.name = program.registers[next].name + " kept as " + program.variables[variable].name;
  program.next[variable] =
      add_copy(program, next, std::move(copy), program.variables[variable].name + ".next");
}

/// Old values that the end of the step still needs: as a result, or as the next value of another
/// variable. Each is copied before anything is written over its variable.
void keep_old_values(Program& program) {
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterIndex value = program.variables[v].value;
    if (program.next[v].is_none() || program.next[v] == value) continue;
    std::vector<RegisterIndex*> uses;
    for (auto& [name, result] : program.results)
      if (result == value) uses.push_back(&result);
    for (RegisterIndex& next : program.next)
      if (next == value) uses.push_back(&next);
    if (uses.empty()) continue;
    Register kept = program.registers[value];
    kept.name += " before the step";
    kept.storage = Register::Storage::kArena;
    kept.variable = -1;
    const RegisterIndex target =
        add_copy(program, value, std::move(kept), program.variables[v].name + ".before");
    for (RegisterIndex* use : uses) *use = target;
  }
}

}  // namespace

void update_variables_in_place(Program& program) {
  keep_old_values(program);
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterIndex next = program.next[v];
    const RegisterIndex value = program.variables[v].value;
    if (next.is_none() || next == value) continue;
    if (!may_write_over(program, value, next)) {
      append_copy(program, v, next);
      continue;
    }
    Register& reg = program.registers[next];
    reg.storage = Register::Storage::kVariable;
    reg.variable = static_cast<int>(v);
  }
}

}  // namespace tessera
