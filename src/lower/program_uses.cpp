#include "lower/program_uses.h"

namespace tessera {
namespace {

/// Calls `visit(register, instruction)` for every register that an instruction reads, once each.
template <class Visit>
void for_each_read(const Program& program, const Visit& visit) {
  IndexedVector<RegisterIndex, InstructionIndex> last_seen(program.registers.size());
  for (InstructionIndex i : program.instructions.indices())
    for (RegisterIndex reg : program.instructions[i].reads()) {
      if (last_seen[reg] == i) continue;
      last_seen[reg] = i;
      visit(reg, i);
    }
}

}  // namespace

ProgramUses::ProgramUses(const Program& program)
    : writers_(program.registers.size()),
      begins_(program.registers.size() + 1, 0),
      is_live_out_(program.registers.size(), false) {
  for (InstructionIndex i : program.instructions.indices())
    for (RegisterIndex reg : program.instructions[i].writes()) writers_[reg] = i;
  for_each_read(program, [&](RegisterIndex reg, InstructionIndex) { ++begins_[reg + 1]; });
  for (RegisterIndex reg : program.registers.indices()) begins_[reg + 1] += begins_[reg];
  readers_.resize(begins_.back());
  IndexedVector<RegisterIndex, int> next = begins_;
  for_each_read(program, [&](RegisterIndex reg, InstructionIndex i) { readers_[next[reg]++] = i; });
  for (const auto& [name, reg] : program.results) is_live_out_[reg] = true;
  for (RegisterIndex reg : program.next)
    if (!reg.is_none()) is_live_out_[reg] = true;
}

std::span<const InstructionIndex> ProgramUses::readers(RegisterIndex reg) const {
  return std::span(readers_).subspan(begins_[reg], begins_[reg + 1] - begins_[reg]);
}

InstructionIndex ProgramUses::first_reader(RegisterIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? InstructionIndex() : list.front();
}

InstructionIndex ProgramUses::last_reader(RegisterIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? InstructionIndex() : list.back();
}

InstructionIndex feed_position(const ProgramUses& uses, RegisterIndex input) {
  const InstructionIndex reader = uses.first_reader(input);
  return reader.is_none() ? InstructionIndex(0) : reader;
}

}  // namespace tessera
