#include "compiler/lower/internal/live_ranges.h"

namespace tessera {

LiveRanges find_live_ranges(const Program& program, const InstanceUses& uses) {
  const RegisterInstances& registers = uses.registers();
  const int count = registers.size(), last = uses.order().size() + 1;
  LiveRanges live{IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, bool>(count, false),
                  IndexedVector<RegisterIndex, bool>(count, false)};
  for (const ProgramInput& input : program.inputs)
    for (RegisterIndex reg : registers.at(input.value))
      live.begin[reg] = live.end[reg] = program.registers[input.value].micro_batch.index < 0
                                            ? 0
                                            : feed_position(uses, reg).value() + 1;
  const auto note_copied = [&](RegisterIndex reg) {  // copies run on streams of their own
    live.is_shared[reg] = live.is_copied[reg] = true;
  };
  for (Time time : uses.order().indices()) {
    const auto& [index, micro_batch, pass, issue_after] = uses.order()[time];
    const Instruction& instruction = program.instructions[index];
    const int begin = (issue_after.is_none() ? time.value() : issue_after.value() + 1) + 1;
    registers.for_each_written(instruction, micro_batch, [&](RegisterIndex reg) {
      live.begin[reg] = begin;
      live.end[reg] = time.value() + 1;
      if (instruction.copy()) note_copied(reg);
    });
    if (!instruction.kernel())
      registers.for_each_read(instruction, micro_batch, [&](RegisterIndex reg) {
        live.is_shared[reg] = true;
        if (instruction.copy()) note_copied(reg);
      });
  }
  for (RegisterIndex reg : live.end.indices())
    if (const Time reader = uses.last_reader(reg); !reader.is_none())
      live.end[reg] = reader.value() + 1;
  for (const auto& [name, reg] : program.results) live.end[registers.whole(reg)] = last;
  for (RegisterIndex reg : live.end.indices())
    if (live.is_copied[reg]) {
      live.begin[reg] = 0;
      live.end[reg] = last;
    }
  return live;
}

bool may_hold_result(const Program& program, const InstanceUses& uses, Time time,
                     RegisterIndex operand) {
  const InstructionInstance& at = uses.order()[time];
  const KernelForm* kernel = program.instructions[at.instruction].kernel();
  if (!kernel || kernel->outputs.empty()) return false;
  const RegisterInstances& registers = uses.registers();
  const RegisterForm &held = program.registers[registers.form_of(operand)],
                     &result = program.registers[kernel->outputs.front()];
  const RegisterIndex written = registers.written(kernel->outputs.front(), at.micro_batch);
  return registers.is_in_arena(program, written) && held.type == result.type &&
         held.attr == result.attr && may_write_over(program, uses, time, operand);
}

}  // namespace tessera
