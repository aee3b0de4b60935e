// What a decomposed collective matmul costs: the options of the pass and its formula.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tessera {

/// What chunks are priced with, beside the links (ReshardOptions).
struct CollectiveMatmulCost {
  double flops_per_second = 2e10;  // of one rank
  double bytes_per_second = 1e10;  // of its memory: copies of chunks
  Seconds kernel{2e-6};            // that each further kernel loses
};

struct CollectiveMatmulOptions {
  /// 1: no matmul is decomposed; kAutoChunks: where it pays; another number: into so many chunks,
  /// or the next smaller number that the shapes allow.
  int64_t chunks = 1;
  CollectiveMatmulCost cost = {};
};

/// Times of one chunk of a matmul and its exchange.
struct ChunkTimes {
  Seconds exchange{0};
  Seconds kernels{0};
  /// Of all chunks together: out of the tensor that is divided, and into the one that is joined.
  Seconds copies{0};
};

/// Time of `chunks` of them: all but the first exchange (behind a matmul: the last) run while a
/// kernel does.
///
///     t(c) = copies + exchange + (c - 1) max(exchange, kernels) + kernels
///
/// The exchange of a chunk costs its latencies anew and 1/c of the bytes (price in
/// reshard/reshard.h); its kernels 1/c of the work and a further CollectiveMatmulCost::kernel each.
/// So t(c) - t(1) = copies + (c - 1) (latency + kernel loss) - (1 - 1/c) min(exchange, kernels of
/// the whole).
///   source  Wang et al., Overlap communication with dependent computation via decomposition,
///           ASPLOS 2023
Seconds decomposed_time(int64_t chunks, const ChunkTimes& of_chunk);

}  // namespace tessera
