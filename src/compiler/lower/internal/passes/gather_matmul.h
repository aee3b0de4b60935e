// Matmuls after an all-gather, decomposed.
#pragma once

#include "compiler/lower/internal/passes/matmul_decomposition.h"

namespace tessera {

/// An all-gather and the matmuls that read its result, in chunks
/// (compiler/lower/passes/collective_matmul.h).
class GatherMatmuls {
 public:
  GatherMatmuls(Program& program, MatmulAnalysis& analysis, InstructionRewrites& rewrites)
      : program_(program), analysis_(analysis), rewrites_(rewrites) {}

  /// Decomposes where the options ask for it, or where it pays.
  void decompose(InstructionIndex gather);

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const ExchangeStep& exchange(InstructionIndex index) const { return *at(index).exchange(); }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }

  bool may_decompose(InstructionIndex gather) const;
  std::vector<InstructionIndex> matmuls_after(InstructionIndex gather) const;
  std::vector<DividedMatmul> divide(InstructionIndex gather, int dim,
                                    const std::vector<InstructionIndex>& matmuls) const;
  std::optional<Decomposition> best_candidate(InstructionIndex gather,
                                              const std::vector<InstructionIndex>& matmuls);
  bool is_needed_whole(RegisterFormIndex index, const std::vector<DividedMatmul>& matmuls) const;
  Seconds time_of(InstructionIndex gather, const Decomposition& candidate,
                  const std::vector<InstructionIndex>& matmuls);
  void rewrite(InstructionIndex gather, const Decomposition& chosen);

  Program& program_;
  MatmulAnalysis& analysis_;
  InstructionRewrites& rewrites_;
};

}  // namespace tessera
