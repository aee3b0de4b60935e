#include "compiler/lower/internal/program_uses.h"

#include <utility>

namespace tessera {

ProgramUses::ProgramUses(const Program& program)
    : writers_(program.registers.size()),
      begins_(program.registers.size() + 1, 0),
      is_live_out_(program.registers.size(), false) {
  struct Read {
    RegisterFormIndex reg;
    InstructionIndex reader;
  };
  std::vector<Read> reads;  // each register once an instruction
  reads.reserve(3 * program.instructions.size());
  IndexedVector<RegisterFormIndex, InstructionIndex> last_seen(program.registers.size());
  for (InstructionIndex i : program.instructions.indices()) {
    const Instruction& instruction = program.instructions[i];
    for (RegisterFormIndex reg : instruction.writes()) writers_[reg] = i;
    for (RegisterFormIndex reg : instruction.reads())
      if (std::exchange(last_seen[reg], i) != i) reads.push_back({reg, i});
  }
  for (const Read& read : reads) ++begins_[read.reg + 1];
  for (RegisterFormIndex reg : program.registers.indices()) begins_[reg + 1] += begins_[reg];
  readers_.resize(begins_.back());
  IndexedVector<RegisterFormIndex, int> next = begins_;
  for (const Read& read : reads) readers_[next[read.reg]++] = read.reader;
  for (const auto& [name, reg] : program.results) is_live_out_[reg] = true;
  for (RegisterFormIndex reg : program.next)
    if (!reg.is_none()) is_live_out_[reg] = true;
}

std::span<const InstructionIndex> ProgramUses::readers(RegisterFormIndex reg) const {
  return std::span(readers_).subspan(begins_[reg], begins_[reg + 1] - begins_[reg]);
}

InstructionIndex ProgramUses::first_reader(RegisterFormIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? InstructionIndex() : list.front();
}

InstructionIndex ProgramUses::last_reader(RegisterFormIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? InstructionIndex() : list.back();
}

InstructionIndex feed_position(const ProgramUses& uses, RegisterFormIndex input) {
  const InstructionIndex reader = uses.first_reader(input);
  return reader.is_none() ? InstructionIndex(0) : reader;
}

}  // namespace tessera
