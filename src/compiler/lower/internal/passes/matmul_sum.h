// Matmuls before a sum over ranks, decomposed.
#pragma once

#include "compiler/lower/internal/passes/matmul_decomposition.h"

namespace tessera {

/// A reduce-scatter or all-reduce and the matmuls whose partial values it sums, in chunks
/// (compiler/lower/passes/collective_matmul.h).
class MatmulSums {
 public:
  MatmulSums(Program& program, MatmulAnalysis& analysis, InstructionRewrites& rewrites)
      : program_(program), analysis_(analysis), rewrites_(rewrites) {}

  /// Decomposes where the options ask for it, or where it pays.
  void decompose(InstructionIndex sum);

 private:
  /// Matmuls whose results are added, and the additions, in order; of one matmul none.
  struct Summands {
    std::vector<InstructionIndex> matmuls;
    std::vector<InstructionIndex> additions;
  };

  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const ExchangeStep& exchange(InstructionIndex index) const { return *at(index).exchange(); }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }
  RegisterFormIndex operand_of(const DividedMatmul& matmul) const {
    return at(matmul.at).kernel()->inputs[matmul.input];
  }

  bool find_summands(RegisterFormIndex result, InstructionIndex sum, Summands& found) const;
  bool may_move(InstructionIndex from, InstructionIndex to) const;
  std::vector<InstructionIndex> exchanges_from(InstructionIndex sum) const;
  std::optional<DividedMatmul> divide(InstructionIndex matmul, int dim) const;
  std::optional<Decomposition> candidate_at(const Summands& summands,
                                            const std::vector<InstructionIndex>& exchanges,
                                            int dim) const;
  std::optional<Decomposition> best_candidate(const Summands& summands,
                                              const std::vector<InstructionIndex>& exchanges);
  Seconds kernels_time(const Summands& summands, int64_t chunks) const;
  Seconds time_of(const Decomposition& candidate, const Summands& summands,
                  const std::vector<InstructionIndex>& exchanges);
  void rewrite(const Decomposition& chosen, const Summands& summands,
               const std::vector<InstructionIndex>& exchanges, InstructionIndex position);

  Program& program_;
  MatmulAnalysis& analysis_;
  InstructionRewrites& rewrites_;
};

}  // namespace tessera
