#include "compiler/lower/internal/instances.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

IndexedVector<RegisterFormIndex, Repeats> repeats_of_registers(const Program& program) {
  IndexedVector<RegisterFormIndex, Repeats> repeats(program.registers.size(), Repeats::kOnce);
  if (!program.rolled) return repeats;
  for (const ProgramInput& input : program.inputs)
    if (program.registers[input.value].micro_batch.index >= 0)
      repeats[input.value] = Repeats::kInput;
  for (const Instruction& instruction : program.instructions)
    if (instruction.micro_batch >= 0)
      for (RegisterFormIndex reg : instruction.writes())
        repeats[reg] = is_sum_over_micro_batches(instruction)       ? Repeats::kSum
                       : is_same_in_each(program, instruction, reg) ? Repeats::kSame
                                                                    : Repeats::kEach;
  return repeats;
}

}  // namespace

bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterFormIndex reg) {
  const KernelForm* kernel = writer.kernel();
  return kernel && writer.micro_batch >= 0 && kernel->purpose == KernelPurpose::kOp &&
         kernel->workspace != reg && rolled.registers[reg].micro_batch.index < 0;
}

InstanceOrder order_by_op(const Program& rolled) {
  ensure(rolled.rolled.has_value(), "only a rolled program has instances of its instructions");
  InstanceOrder order;
  const auto add = [&](InstructionIndex begin, InstructionIndex end) {
    const IndexRange<InstructionIndex> list(begin, end);
    const bool has_each = std::any_of(list.begin(), list.end(), [&](InstructionIndex index) {
      return rolled.instructions[index].micro_batch >= 0;
    });
    for (int i = 0; i < (has_each ? rolled.rolled->micro_batches : 1); ++i)
      for (InstructionIndex index : list) {
        const Instruction& instruction = rolled.instructions[index];
        if (instruction.micro_batch < 0 && i == 0) order.push_back({index, -1});
        if (instruction.micro_batch >= 0 && (i > 0 || !is_sum_over_micro_batches(instruction)))
          order.push_back({index, i});
      }
  };
  InstructionIndex begin(0);
  for (const RolledForm::LoweredOp& op : rolled.rolled->ops) {
    add(begin, op.first_instruction);
    begin = op.first_instruction;
  }
  add(begin, rolled.instructions.end_index());
  return order;
}

InstanceOrder instances(const Program& program) {
  if (!program.order.empty()) return program.order;
  if (program.rolled) return order_by_op(program);
  InstanceOrder order;
  order.reserve(program.instructions.size());
  for (InstructionIndex i : program.instructions.indices())
    order.push_back({i, program.instructions[i].micro_batch, program.instructions[i].pass});
  return order;
}

// ---- registers ----

RegisterInstances::RegisterInstances(const Program& program)
    : RegisterNumbering(program.rolled ? program.rolled->micro_batches : 1,
                        repeats_of_registers(program)),
      is_rolled_(program.rolled.has_value()) {}

// ---- uses ----

InstanceUses::InstanceUses(const Program& program)
    : order_(instances(program)),
      registers_(program),
      writers_(registers_.size()),
      begins_(registers_.size() + 1, 0),
      is_live_out_(registers_.size(), false) {
  struct Read {
    RegisterIndex reg;
    Time reader;
  };
  std::vector<Read> reads;  // each register once an instance
  reads.reserve(3 * order_.elements().size());
  IndexedVector<RegisterIndex, Time> last_seen(registers_.size());
  for (Time t : order_.indices()) {
    const Instruction& instruction = program.instructions[order_[t].instruction];
    const int micro_batch = order_[t].micro_batch;
    registers_.for_each_written(instruction, micro_batch,
                                [&](RegisterIndex reg) { writers_[reg] = t; });
    registers_.for_each_read(instruction, micro_batch, [&](RegisterIndex reg) {
      if (std::exchange(last_seen[reg], t) != t) reads.push_back({reg, t});
    });
  }
  for (const Read& read : reads) ++begins_[read.reg + 1];
  for (RegisterIndex reg : writers_.indices()) begins_[reg + 1] += begins_[reg];
  readers_.resize(begins_.back());
  IndexedVector<RegisterIndex, int> next = begins_;
  for (const Read& read : reads) readers_[next[read.reg]++] = read.reader;
  for (const auto& [name, reg] : program.results) is_live_out_[registers_.whole(reg)] = true;
  for (RegisterFormIndex reg : program.next)
    if (!reg.is_none()) is_live_out_[registers_.whole(reg)] = true;
}

std::span<const Time> InstanceUses::readers(RegisterIndex reg) const {
  return std::span(readers_).subspan(begins_[reg], begins_[reg + 1] - begins_[reg]);
}

Time InstanceUses::first_reader(RegisterIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? Time() : list.front();
}

Time InstanceUses::last_reader(RegisterIndex reg) const {
  const auto list = readers(reg);
  return list.empty() ? Time() : list.back();
}

Time feed_position(const InstanceUses& uses, RegisterIndex input) {
  const Time reader = uses.first_reader(input);
  return reader.is_none() ? Time(0) : reader;
}

bool may_write_over(const Program& program, const InstanceUses& uses, Time time,
                    RegisterIndex operand) {
  const auto& [instruction, micro_batch, pass, issue_after] = uses.order()[time];
  const KernelForm* kernel = program.instructions[instruction].kernel();
  if (!kernel || kernel->control) return false;
  std::vector<int> inputs;
  uses.registers().for_each_read(program.instructions[instruction], micro_batch,
                                 [&](RegisterIndex reg) { inputs.push_back(reg.value()); });
  return may_write_over(kernel->call->kernel, inputs, operand.value(), program.kernels.get());
}

}  // namespace tessera
