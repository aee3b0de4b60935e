// A sum that is written past the caches.
#pragma once

#include <cstdint>

namespace tessera {

/// Bytes of a result from which on it is written past the caches: it would not stay in them until
/// it is read, and a store that goes around them does not fetch the old bytes first, a quarter of
/// all traffic.
constexpr int64_t kStreamedBytes = int64_t{8} << 20;

/// sum[i] = a[i] + b[i], with the bits of a plain loop.  ensures  other threads see it after any
/// release
void stream_sum(float* sum, const float* a, const float* b, int64_t count);

}  // namespace tessera
