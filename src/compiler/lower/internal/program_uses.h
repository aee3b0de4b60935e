// Definitions and uses of the registers of a program: the analysis that the passes share.
#pragma once

#include <span>
#include <vector>

#include "compiler/lower/internal/program.h"

namespace tessera {

/// Which instruction writes each register, and which instructions read it. It describes the program
/// as it was when the analysis was made.
///   time  O(instructions + registers)
class ProgramUses {
 public:
  /// requires  each register has at most one writer (compiler/lower/internal/verify_program.h)
  explicit ProgramUses(const Program& program);

  /// None when a feed fills the register, or nothing does.
  InstructionIndex writer(RegisterFormIndex reg) const { return writers_[reg]; }
  /// Ascending, each once.
  std::span<const InstructionIndex> readers(RegisterFormIndex reg) const;
  /// None when no instruction reads it.
  InstructionIndex first_reader(RegisterFormIndex reg) const;
  InstructionIndex last_reader(RegisterFormIndex reg) const;
  /// Is it a result of the program, or the next value of a variable?
  bool is_live_out(RegisterFormIndex reg) const { return is_live_out_[reg]; }

 private:
  IndexedVector<RegisterFormIndex, InstructionIndex> writers_;
  IndexedVector<RegisterFormIndex, int> begins_;  // of the readers of each register in readers_
  std::vector<InstructionIndex> readers_;
  IndexedVector<RegisterFormIndex, bool> is_live_out_;
};

/// The instruction right before which the feed fills an input of one micro-batch: its first reader,
/// or the first instruction when nothing reads it.
InstructionIndex feed_position(const ProgramUses& uses, RegisterFormIndex input);

}  // namespace tessera
