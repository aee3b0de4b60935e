// Registers and instructions of chunks: what a program needs to work on a tensor part by part.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/lower/internal/program.h"

namespace tessera {

/// A register and the dim of it that is divided into chunks.
struct ChunkedDim {
  RegisterFormIndex reg;
  int dim = -1;
};

/// The equal blocks of a dim that several registers have in common: as many as the ranks that
/// divide it most finely, or with weights the sum of the weights of these ranks.
///   returns  nothing when the axes of one do not continue those of another, one has windows or
///            chunks in its placement, or there are more than 2^20 blocks
std::optional<int64_t> common_blocks(const Program& program, std::span<const ChunkedDim> dims);

/// Do `count` chunks of `blocks` blocks divide each dim evenly, and between units?
bool divides_evenly(const Program& program, std::span<const ChunkedDim> dims, int64_t blocks,
                    int64_t count);

/// Makes the registers and instructions of `count` chunks of `blocks` blocks each.
class ChunkMaker {
 public:
  /// free  registers that no instruction names any more: their indices are used first, so that no
  ///       register remains that nothing fills
  ChunkMaker(Program& program, int64_t blocks, int64_t count, std::vector<RegisterFormIndex>& free)
      : program_(program), blocks_(blocks), count_(count), free_(free) {}

  /// A register for chunk `index` of what `whole` would hold.
  ///   whole  a copy: its index may be among the free ones
  RegisterFormIndex chunk_of(RegisterForm whole, int dim, int64_t index);
  std::vector<RegisterFormIndex> chunks_of(const RegisterForm& whole, int dim);

  // Instructions in the pass of `like`.
  Instruction take(const ChunkedDim& whole, RegisterFormIndex chunk, const Instruction& like) const;
  Instruction join(const std::vector<RegisterFormIndex>& chunks, const ChunkedDim& whole,
                   const Instruction& like) const;
  /// `kernel` with chunks as one operand and the first result, and with a workspace of its own.
  Instruction kernel_of(const Instruction& kernel, size_t input, RegisterFormIndex source,
                        RegisterFormIndex target);
  static Instruction exchange_of(const Instruction& exchange, RegisterFormIndex source,
                                 RegisterFormIndex target);

 private:
  const RegisterForm& at(RegisterFormIndex index) const { return program_.registers[index]; }
  RegisterFormIndex add(RegisterForm reg);
  LocalInt blocks_of_rank(const ChunkedDim& whole) const;

  Program& program_;
  int64_t blocks_, count_;
  std::vector<RegisterFormIndex>& free_;
};

/// The largest part of a register that a rank has.
///   requires  no windows
TensorType largest_type(const RegisterForm& reg);

}  // namespace tessera
