// The time of a decomposed collective matmul.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tessera {

/// Times of one chunk of a matmul and its exchange.
struct ChunkTimes {
  Seconds exchange{0};
  Seconds kernels{0};
  /// Of all chunks together: out of the tensor that is divided, and into the one that is joined.
  Seconds copies{0};
};

/// Time of `chunks` of them: all but the first exchange (after a matmul: the last) run while a
/// kernel does.
///
///     t(c) = copies + exchange + (c - 1) max(exchange, kernels) + kernels
///
/// The exchange of a chunk costs its latencies anew and 1/c of the bytes (price in
/// sharding/reshard/price.h); its kernels 1/c of the work and a further launch each
/// (compute_price). So t(c) - t(1) = copies + (c - 1) (latency + launch) - (1 - 1/c) min(exchange,
/// kernels of the whole).
///   source  Wang et al., Overlap communication with dependent computation via decomposition,
///           ASPLOS 2023
Seconds decomposed_time(int64_t chunks, const ChunkTimes& of_chunk);

}  // namespace tessera
