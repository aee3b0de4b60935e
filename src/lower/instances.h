// What the micro-batches of a rolled program read and write, and when: the analysis that the passes
// behind the order share. Instances are numbers; no instruction and no register is copied. A
// program that is not rolled has one instance of each.
#pragma once

#include <span>
#include <vector>

#include "lower/program.h"

namespace tessera {

/// Is `reg` a value of the whole step that an op computes in each micro-batch, such as the number
/// of iterations of a While? All its readers read that of the first micro-batch.
///   writer  of `reg`, in a rolled program
bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterIndex reg);

/// One op after the other, with the micro-batches of each in ascending order.
///   requires  the instructions of `rolled` are in the order of partition; others may follow
///   time      O(instances)
InstanceOrder order_by_op(const Program& rolled);

/// The order of the program; when it has none yet, order_by_op of a rolled program, or the
/// instructions.
InstanceOrder instances(const Program& program);

/// The registers of a program in each micro-batch. Those of one register are neighbours, with the
/// micro-batches in ascending order.
///   time  O(instructions + instances of registers)
class RegisterInstances {
 public:
  /// How many registers a register of a rolled program stands for.
  enum class Repeats {
    kOnce,
    kEach,   // one for each micro-batch
    kInput,  // the same; those of all micro-batches are in the feed
    kSame,   // the same; all readers read the first one
    kSum,    // the sum up to each micro-batch but the first; the last one is complete
  };

  explicit RegisterInstances(const Program& program);

  int micro_batches() const { return count_; }
  Repeats repeats(RegisterIndex reg) const { return repeats_[reg]; }
  /// The numbers of all instances are below it. The number of a sum in the first micro-batch has no
  /// meaning.
  int size() const { return static_cast<int>(registers_.size()); }
  IndexRange<RegisterInstance> of(RegisterIndex reg) const;
  RegisterIndex register_of(RegisterInstance instance) const { return registers_[instance]; }
  int micro_batch_of(RegisterInstance instance) const {
    return instance - firsts_[register_of(instance)];
  }
  /// Is it in an arena? Only one instance of a register may be in the memory of a variable.
  bool is_in_arena(const Program& program, RegisterInstance instance) const;

  /// What an instruction that writes `reg` writes in a micro-batch, or (-1) once a step.
  RegisterInstance written(RegisterIndex reg, int micro_batch) const {
    return firsts_[reg] + (repeats_[reg] == Repeats::kOnce ? 0 : micro_batch);
  }
  /// What an instruction that reads `reg` reads in a micro-batch, or (-1) once a step.
  RegisterInstance read(RegisterIndex reg, int micro_batch) const;
  /// The value of the whole step.
  ///   requires  `reg` is no value of each micro-batch
  RegisterInstance whole(RegisterIndex reg) const;
  /// The sum to which the instruction `sum` adds its operand in a micro-batch that is not the first
  /// one.
  RegisterInstance sum_before(const Instruction& sum, int micro_batch) const;

  /// Calls visit(instance of a register) for what an instruction reads in a micro-batch. A sum over
  /// micro-batches reads the sum before it first.
  template <class Visit>
  void for_each_read(const Instruction& instruction, int micro_batch, const Visit& visit) const {
    if (micro_batch > 0 && is_rolled_ && is_sum_over_micro_batches(instruction))
      visit(sum_before(instruction, micro_batch));
    for (RegisterIndex reg : instruction.reads()) visit(read(reg, micro_batch));
  }
  template <class Visit>
  void for_each_written(const Instruction& instruction, int micro_batch, const Visit& visit) const {
    for (RegisterIndex reg : instruction.writes()) visit(written(reg, micro_batch));
  }

 private:
  bool is_whole(RegisterIndex reg) const {
    return repeats_[reg] == Repeats::kOnce || repeats_[reg] == Repeats::kSum ||
           repeats_[reg] == Repeats::kSame;
  }

  const bool is_rolled_;
  const int count_;
  IndexedVector<RegisterIndex, Repeats> repeats_;
  IndexedVector<RegisterIndex, RegisterInstance> firsts_;
  IndexedVector<RegisterInstance, RegisterIndex> registers_;
};

/// When each register is written and read in each micro-batch. It describes the program as it was
/// when the analysis was made.
///   time  O(instances)
class InstanceUses {
 public:
  /// requires  each register has at most one writer (lower/verify_program.h)
  explicit InstanceUses(const Program& program);

  const InstanceOrder& order() const { return order_; }
  const RegisterInstances& registers() const { return registers_; }
  /// None when a feed fills the register, or nothing does.
  Time writer(RegisterInstance reg) const { return writers_[reg]; }
  /// Ascending, each once.
  std::span<const Time> readers(RegisterInstance reg) const;
  /// None when nothing reads it.
  Time first_reader(RegisterInstance reg) const;
  Time last_reader(RegisterInstance reg) const;
  /// Is it a result of the program, or the next value of a variable?
  bool is_live_out(RegisterInstance reg) const { return is_live_out_[reg]; }

 private:
  InstanceOrder order_;
  RegisterInstances registers_;
  IndexedVector<RegisterInstance, Time> writers_;
  IndexedVector<RegisterInstance, int> begins_;  // of the readers of each register in readers_
  std::vector<Time> readers_;
  IndexedVector<RegisterInstance, bool> is_live_out_;
};

/// When the feed fills an input of one micro-batch: right before its first reader, or at the
/// beginning when nothing reads it.
Time feed_position(const InstanceUses& uses, RegisterInstance input);

/// May the kernel at `time` write its first result over `operand`, which it reads and which has the
/// type and the placement of the result?
bool may_write_over(const Program& program, const InstanceUses& uses, Time time,
                    RegisterInstance operand);

}  // namespace tessera
