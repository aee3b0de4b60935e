#include "compiler/lower/passes/matmul_cost.h"

#include <algorithm>

namespace tessera {

Seconds decomposed_time(int64_t chunks, const ChunkTimes& of_chunk) {
  const auto& [exchange, kernels, copies] = of_chunk;
  const double hidden = static_cast<double>(chunks - 1) * std::max(exchange, kernels).value();
  return copies + exchange + Seconds(hidden) + kernels;
}

}  // namespace tessera
