// A sum that is written past the caches.
#pragma once

#include <cstdint>

namespace tessera {

/// Results of at least this many bytes are written past the caches: they would be evicted before
/// they are read. A streaming store also does not fetch the old bytes first, which would be a
/// quarter of all traffic.
constexpr int64_t kStreamedBytes = int64_t{8} << 20;

/// sum[i] = a[i] + b[i], with the bits of a plain loop.
///   ensures  other threads see the sum after any release
void stream_sum(float* sum, const float* a, const float* b, int64_t count);

}  // namespace tessera
