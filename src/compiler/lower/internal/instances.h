// What the micro-batches of a rolled program read and write, and when: the analysis that the passes
// after the order share. Instances are numbers; no instruction and no register is copied. A
// program that is not rolled has one instance of each.
#pragma once

#include <span>
#include <vector>

#include "compiler/lower/internal/program.h"

namespace tessera {

/// Is `reg` a value of the whole step that an op computes in each micro-batch, such as the number
/// of iterations of a While? All its readers read that of the first micro-batch.
///   writer  of `reg`, in a rolled program
bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterFormIndex reg);

/// One op after the other, with the micro-batches of each in ascending order.
///   requires  the instructions of `rolled` are in the order of partition; others may follow
///   time      O(instances)
InstanceOrder order_by_op(const Program& rolled);

/// The order of the program; when it has none yet, order_by_op of a rolled program, or the
/// instructions.
InstanceOrder instances(const Program& program);

/// The registers of a program in each micro-batch.
///   time  O(instructions + registers of all micro-batches)
class RegisterInstances : public RegisterNumbering {
 public:
  explicit RegisterInstances(const Program& program);

  /// Is it in an arena?
  bool is_in_arena(const Program& program, RegisterIndex reg) const {
    return program.registers[form_of(reg)].storage == Register::Storage::kArena ||
           !may_be_in_variable(reg);
  }
  /// The sum to which the instruction `sum` adds its operand in a micro-batch that is not the first
  /// one.
  RegisterIndex sum_before(const Instruction& sum, int micro_batch) const {
    const KernelForm& kernel = *sum.kernel();
    return RegisterNumbering::sum_before(kernel.outputs.front(), kernel.inputs.front(),
                                         micro_batch);
  }

  /// Calls visit(instance of a register) for what an instruction reads in a micro-batch. A sum over
  /// micro-batches reads the sum before it first.
  template <class Visit>
  void for_each_read(const Instruction& instruction, int micro_batch, const Visit& visit) const {
    if (micro_batch > 0 && is_rolled_ && is_sum_over_micro_batches(instruction))
      visit(sum_before(instruction, micro_batch));
    for (RegisterFormIndex reg : instruction.reads()) visit(read(reg, micro_batch));
  }
  template <class Visit>
  void for_each_written(const Instruction& instruction, int micro_batch, const Visit& visit) const {
    for (RegisterFormIndex reg : instruction.writes()) visit(written(reg, micro_batch));
  }

 private:
  const bool is_rolled_;
};

/// When each register is written and read in each micro-batch. It describes the program as it was
/// when the analysis was made.
///   time  O(instances)
class InstanceUses {
 public:
  /// requires  each register has at most one writer (compiler/lower/internal/verify_program.h)
  explicit InstanceUses(const Program& program);

  const InstanceOrder& order() const { return order_; }
  const RegisterInstances& registers() const { return registers_; }
  /// None when a feed fills the register, or nothing does.
  Time writer(RegisterIndex reg) const { return writers_[reg]; }
  /// Ascending, each once.
  std::span<const Time> readers(RegisterIndex reg) const;
  /// None when nothing reads it.
  Time first_reader(RegisterIndex reg) const;
  Time last_reader(RegisterIndex reg) const;
  /// Is it a result of the program, or the next value of a variable?
  bool is_live_out(RegisterIndex reg) const { return is_live_out_[reg]; }

 private:
  InstanceOrder order_;
  RegisterInstances registers_;
  IndexedVector<RegisterIndex, Time> writers_;
  IndexedVector<RegisterIndex, int> begins_;  // of the readers of each register in readers_
  std::vector<Time> readers_;
  IndexedVector<RegisterIndex, bool> is_live_out_;
};

/// When the feed fills an input of one micro-batch: right before its first reader, or at the
/// beginning when nothing reads it.
Time feed_position(const InstanceUses& uses, RegisterIndex input);

/// May the kernel at `time` write its first result over `operand`, which it reads and which has the
/// type and the placement of the result?
bool may_write_over(const Program& program, const InstanceUses& uses, Time time,
                    RegisterIndex operand);

}  // namespace tessera
