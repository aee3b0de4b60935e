// Exchanges that can be made at one moment become the parts of one exchange, so that each pair of
// ranks sends one message instead of several.
#pragma once

#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/program.h"

namespace tessera {

struct CombineOptions {
  /// Bytes up to which exchanges of the optimizer are brought together over kernels between them.
  Bytes optimizer = kGradientBucket;
  /// The same in the forward and the backward: so few that the latency of a message costs more than
  /// the transfer, since the first reader waits for all parts.
  Bytes passes{1 << 20};
};

/// Moves exchanges up to an earlier one of the same kind and combines them with it: of the same
/// pass, between the same meshes, and over the same axes with the same reduction, whose sources are
/// ready there. Exchanges without kernels between them are combined whatever their size. Those of a
/// rolled program are combined once, where that is right in each micro-batch. A result that nothing
/// in the step reads, such as the loss, may be sent with exchanges of the optimizer.
///
///   requires  the order of the instances is that in which they will run; each exchange has one
///             part
///   ensures   each exchange comes after the instruction that writes its sources, and a variable is
///             written after the readers of its old value; no tensor is reduced in another order
///             and no byte more is sent; the most bytes that are alive at once do not grow
///   time      O(n log n) for n instances, and the square of the number of exchanges of one kind in
///             one pass that cannot be combined, times the micro-batches
///   source    the combiners of XLA for all-reduce and all-gather, which have such a threshold
void combine_exchanges(Program& program, const CombineOptions& options = {});

/// "all-reduce of 3 tensors: dw [*], db [*], dv [*]", a line each.
std::string combine_text(const Program& program);

}  // namespace tessera
