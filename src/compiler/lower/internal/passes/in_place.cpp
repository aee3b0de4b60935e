#include "compiler/lower/internal/passes/in_place.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/program_uses.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

/// Does each micro-batch read `value` for the op whose kernel is `writer`?
bool is_read_in_each(const Program& program, const ProgramUses& uses, RegisterFormIndex value,
                     InstructionIndex writer) {
  const std::vector<RolledForm::LoweredOp>& ops = program.rolled->ops;
  const auto after = std::upper_bound(ops.begin(), ops.end(), writer,
                                      [](InstructionIndex instruction, const auto& op) {
                                        return instruction < op.first_instruction;
                                      });
  const InstructionIndex first = std::prev(after)->first_instruction;
  const auto readers = uses.readers(value);
  return std::any_of(readers.begin(), readers.end(), [&](InstructionIndex reader) {
    return reader >= first && reader <= writer && program.instructions[reader].micro_batch >= 0;
  });
}

/// May `next`, the next value of the variable in `value`, be written to the memory of the variable?
bool may_write_over(const Program& program, const ProgramUses& uses, RegisterFormIndex value,
                    RegisterFormIndex next) {
  const RegisterForm& reg = program.registers[next];
  if (reg.storage == Register::Storage::kVariable) return false;  // it is another variable
  const InstructionIndex writer = uses.writer(next), last_reader = uses.last_reader(value);
  if (writer.is_none() || last_reader > writer) return false;
  if (program.rolled && is_same_in_each(program, program.instructions[writer], next) &&
      is_read_in_each(program, uses, value, writer))
    return false;
  if (last_reader < writer) return true;
  const KernelForm* kernel = program.instructions[writer].kernel();
  if (!kernel || kernel->control || kernel->outputs.front() != next) return false;
  std::vector<int> inputs;
  for (RegisterFormIndex input : kernel->inputs) inputs.push_back(input.value());
  return may_write_over(kernel->call->kernel, inputs, value.value(), program.kernels.get());
}

/// Ends the program with a copy of `source` into a new register like `target`.
RegisterFormIndex add_copy(Program& program, RegisterFormIndex source, RegisterForm target,
                           KernelPurpose purpose, std::string name) {
  Instruction instruction;
  instruction.role = Role::kOptimizer;
  instruction.mesh = target.mesh;
  const RegisterFormIndex index = program.registers.push_back(std::move(target));
  KernelForm step{KernelCall{"copy", {}, {}, ""}, {source}, {index}, {}, std::move(name)};
  step.purpose = purpose;
  instruction.step = std::move(step);
  program.instructions.push_back(std::move(instruction));
  return index;
}

void append_copy(Program& program, size_t variable, RegisterFormIndex next) {
  RegisterForm copy = program.registers[program.variables[variable].value];
  // Named by the value that it holds, since "w.next" might be the name of another value.
  copy.name = program.registers[next].name + " kept as " + program.variables[variable].name;
  program.next[variable] = add_copy(program, next, std::move(copy), KernelPurpose::kCopyNext,
                                    program.variables[variable].name + ".next");
}

/// By register: the results and next values that are this register.
std::map<RegisterFormIndex, std::vector<RegisterFormIndex*>> uses_at_end(Program& program) {
  std::map<RegisterFormIndex, std::vector<RegisterFormIndex*>> uses;
  for (auto& [name, result] : program.results) uses[result].push_back(&result);
  for (RegisterFormIndex& next : program.next) uses[next].push_back(&next);
  return uses;
}

/// Copies old values that are needed at the end of the step, as a result or as the next value of
/// another variable, before their variables are written over.
void keep_old_values(Program& program) {
  const auto uses = uses_at_end(program);
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterFormIndex value = program.variables[v].value;
    if (program.next[v].is_none() || program.next[v] == value) continue;
    const auto found = uses.find(value);
    if (found == uses.end()) continue;
    RegisterForm kept = program.registers[value];
    kept.name += " before the step";
    kept.storage = Register::Storage::kArena;
    kept.variable = -1;
    const RegisterFormIndex target =
        add_copy(program, value, std::move(kept), KernelPurpose::kCopyBefore,
                 program.variables[v].name + ".before");
    for (RegisterFormIndex* use : found->second) *use = target;
  }
}

}  // namespace

void update_variables_in_place(Program& program) {
  keep_old_values(program);
  const ProgramUses uses(program);  // the copies that the loop appends change none of its answers
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterFormIndex next = program.next[v];
    const RegisterFormIndex value = program.variables[v].value;
    if (next.is_none() || next == value) continue;
    if (!may_write_over(program, uses, value, next)) {
      append_copy(program, v, next);
      continue;
    }
    RegisterForm& reg = program.registers[next];
    reg.storage = Register::Storage::kVariable;
    reg.variable = static_cast<int>(v);
  }
}

}  // namespace tessera
