// What the two forms of decomposed collective matmuls have in common: which matmuls can be divided
// where, what that costs, and the rewriting of the program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "compiler/lower/internal/passes/matmul_chunks.h"
#include "compiler/lower/internal/program.h"
#include "compiler/lower/internal/program_uses.h"
#include "compiler/lower/passes/matmul_cost.h"

namespace tessera {

/// A matmul, and the dims in which it is divided.
struct DividedMatmul {
  InstructionIndex at;
  size_t input = 0;  // the operand that is divided
  int input_dim = 0;
  ChunkedDim result;
};

/// A candidate: matmuls and exchanges in `count` chunks.
struct Decomposition {
  std::vector<DividedMatmul> matmuls;
  std::vector<ChunkedDim> dims;  // of all registers that are divided
  int64_t blocks = 1;
  int64_t count = 1;
  Seconds seconds{0};
};

/// Properties and prices of the instructions of a program, and the choice between candidates.
class MatmulAnalysis {
 public:
  MatmulAnalysis(const Program& program, int64_t chunks, const CostModel& cost);

  const ProgramUses& uses() const { return uses_; }
  /// A kernel dot_general whose result is in the arena.
  bool is_matmul(InstructionIndex index) const;
  bool is_in_arena(RegisterFormIndex index) const;
  /// Are two instructions in one pass, in each micro-batch?
  bool are_in_one_pass(InstructionIndex a, InstructionIndex b) const;
  /// Are source and target of the exchange on one mesh, and its target in the arena?
  bool is_within_mesh(InstructionIndex exchange) const;
  /// The dim of the result that dim `dim` of operand `input` becomes, when no other operand has it;
  /// -1: none.
  int kept_dim(const KernelForm& matmul, size_t input, int dim) const;

  // ---- times ----

  Seconds kernel_time(InstructionIndex matmul, int64_t chunks) const;
  /// Of `kernels` kernels that together read and write a register once.
  Seconds copy_time(RegisterFormIndex index, int64_t kernels) const;
  Seconds exchange_time(InstructionIndex exchange, int dim, int64_t chunks);
  Seconds launch() const { return cost_.device.launch; }

  // ---- choice ----

  /// The numbers of chunks to consider: all that divide the dims evenly when the pass decides, else
  /// the largest that is at most the number that was asked for.
  std::vector<int64_t> chunk_counts(const std::vector<ChunkedDim>& dims, int64_t blocks) const;
  /// Keeps the cheaper of two; of equally cheap ones that with the longer dim.
  void keep_better(std::optional<Decomposition>& best, const Decomposition& candidate) const;
  /// Decides between `best` and the whole matmuls, and reports the choice.
  bool decide(const std::optional<Decomposition>& best,
              const std::vector<InstructionIndex>& matmuls,
              const std::vector<InstructionIndex>& exchanges, Seconds whole);
  const std::string& report() const { return report_; }

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }

  const Program& program_;
  const int64_t chunks_;  // as of decompose_collective_matmuls
  const CostModel& cost_;
  const ProgramUses uses_;
  IndexedVector<InstructionIndex, bool> has_one_pass_;  // the same in each micro-batch
  std::map<std::pair<const Mesh*, std::string>, Seconds> prices_;
  std::string report_;
};

/// Instructions that replace others; the program changes when they are applied.
class InstructionRewrites {
 public:
  explicit InstructionRewrites(Program& program);

  bool is_replaced(InstructionIndex index) const { return is_replaced_[index]; }
  /// Removes an instruction; what `replacement` returns comes in its place.
  void remove(InstructionIndex index) { is_replaced_[index] = true; }
  std::vector<Instruction>& replacement(InstructionIndex index) { return replacements_[index]; }
  /// Notes that `reg` will be written at `index`.
  void move_writer(RegisterFormIndex reg, InstructionIndex index) { moved_[reg] = index; }
  /// The instruction at whose position `reg` will be written; none: a feed fills it.
  InstructionIndex writer(const ProgramUses& uses, RegisterFormIndex reg) const;
  void apply();

 private:
  Program& program_;
  IndexedVector<InstructionIndex, bool> is_replaced_;
  IndexedVector<InstructionIndex, std::vector<Instruction>> replacements_;
  std::map<RegisterFormIndex, InstructionIndex> moved_;
};

}  // namespace tessera
