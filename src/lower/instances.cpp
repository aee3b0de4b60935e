#include "lower/instances.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

using Repeats = RegisterInstances::Repeats;

IndexedVector<RegisterIndex, Repeats> repeats_of_registers(const Program& program) {
  IndexedVector<RegisterIndex, Repeats> repeats(program.registers.size(), Repeats::kOnce);
  if (!program.rolled) return repeats;
  for (const TaskInput& input : program.inputs)
    if (program.registers[input.value].micro_batch.index >= 0)
      repeats[input.value] = Repeats::kInput;
  for (const Instruction& instruction : program.instructions)
    if (instruction.micro_batch >= 0)
      for (RegisterIndex reg : instruction.writes())
        repeats[reg] = is_sum_over_micro_batches(instruction)       ? Repeats::kSum
                       : is_same_in_each(program, instruction, reg) ? Repeats::kSame
                                                                    : Repeats::kEach;
  return repeats;
}

}  // namespace

bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterIndex reg) {
  const KernelStep* kernel = writer.kernel();
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
    : is_rolled_(program.rolled.has_value()),
      count_(is_rolled_ ? program.rolled->micro_batches : 1),
      repeats_(repeats_of_registers(program)) {
  for (RegisterIndex reg : program.registers.indices()) {
    firsts_.push_back(registers_.end_index());
    registers_.resize(registers_.size() + (repeats_[reg] == Repeats::kOnce ? 1 : count_), reg);
  }
}

IndexRange<RegisterInstance> RegisterInstances::of(RegisterIndex reg) const {
  const RegisterInstance first = firsts_[reg];
  switch (repeats_[reg]) {
    case Repeats::kOnce: return {first, first + 1};
    case Repeats::kSum: return {first + 1, first + count_};
    default: return {first, first + count_};
  }
}

bool RegisterInstances::is_in_arena(const Program& program, RegisterInstance instance) const {
  const RegisterIndex reg = register_of(instance);
  if (program.registers[reg].storage == Register::Storage::kArena) return true;
  return (repeats_[reg] == Repeats::kSame || repeats_[reg] == Repeats::kSum) &&
         instance != whole(reg);
}

RegisterInstance RegisterInstances::whole(RegisterIndex reg) const {
  ensure(is_whole(reg), "what is used once a step is made once a step");
  return firsts_[reg] + (repeats_[reg] == Repeats::kSum ? count_ - 1 : 0);
}

RegisterInstance RegisterInstances::read(RegisterIndex reg, int micro_batch) const {
  if (is_whole(reg)) return whole(reg);
  ensure(micro_batch >= 0, "a value of each micro-batch is read in a micro-batch");
  return firsts_[reg] + micro_batch;
}

RegisterInstance RegisterInstances::sum_before(const Instruction& sum, int micro_batch) const {
  const KernelStep& kernel = *sum.kernel();
  // In the first micro-batch the sum is the value that is added up.
  return micro_batch == 1 ? read(kernel.inputs.front(), 0)
                          : firsts_[kernel.outputs.front()] + (micro_batch - 1);
}

// ---- uses ----

InstanceUses::InstanceUses(const Program& program)
    : order_(instances(program)),
      registers_(program),
      writers_(registers_.size()),
      begins_(registers_.size() + 1, 0),
      is_live_out_(registers_.size(), false) {
  struct Read {
    RegisterInstance reg;
    Time reader;
  };
  std::vector<Read> reads;  // each register once an instance
  reads.reserve(3 * order_.elements().size());
  IndexedVector<RegisterInstance, Time> last_seen(registers_.size());
  for (Time t : order_.indices()) {
    const Instruction& instruction = program.instructions[order_[t].instruction];
    const int micro_batch = order_[t].micro_batch;
    registers_.for_each_written(instruction, micro_batch,
                                [&](RegisterInstance reg) { writers_[reg] = t; });
    registers_.for_each_read(instruction, micro_batch, [&](RegisterInstance reg) {
      if (std::exchange(last_seen[reg], t) != t) reads.push_back({reg, t});
    });
  }
  for (const Read& read : reads) ++begins_[read.reg + 1];
  for (RegisterInstance reg : writers_.indices()) begins_[reg + 1] += begins_[reg];
  readers_.resize(begins_.back());
  IndexedVector<RegisterInstance, int> next = begins_;
  for (const Read& read : reads) readers_[next[read.reg]++] = read.reader;
  for (const auto& [name, reg] : program.results) is_live_out_[registers_.whole(reg)] = true;
  for (RegisterIndex reg : program.next)
    if (!reg.is_none()) is_live_out_[registers_.whole(reg)] = true;
}

std::span<const Time> InstanceUses::readers(RegisterInstance reg) const {
  return std::span(readers_).subspan(begins_[reg], begins_[reg + 1] - begins_[reg]);
}

Time InstanceUses::first_reader(RegisterInstance reg) const {
  const auto list = readers(reg);
  return list.empty() ? Time() : list.front();
}

Time InstanceUses::last_reader(RegisterInstance reg) const {
  const auto list = readers(reg);
  return list.empty() ? Time() : list.back();
}

Time feed_position(const InstanceUses& uses, RegisterInstance input) {
  const Time reader = uses.first_reader(input);
  return reader.is_none() ? Time(0) : reader;
}

bool may_write_over(const Program& program, const InstanceUses& uses, Time time,
                    RegisterInstance operand) {
  const auto& [instruction, micro_batch, pass, issue_after] = uses.order()[time];
  const KernelStep* kernel = program.instructions[instruction].kernel();
  if (!kernel || kernel->control) return false;
  std::vector<int> inputs;
  uses.registers().for_each_read(program.instructions[instruction], micro_batch,
                                 [&](RegisterInstance reg) { inputs.push_back(reg.value()); });
  return may_write_over(kernel->call->kernel, inputs, operand.value(), program.kernels.get());
}

}  // namespace tessera
