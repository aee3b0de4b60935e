// Measures the largest amount of memory that one thread has allocated at a time, for tests.
// base/testing/allocation.h reports allocations.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tessera::thread_peak {

inline std::atomic<int64_t> measurements{0};  // so far
inline std::atomic<int64_t> measurement{0};   // number of the current measurement; 0: none
inline std::atomic<int64_t> peak{0};          // of the thread with the most memory
inline thread_local int64_t measured = 0;     // the measurement to which `live` belongs
inline thread_local int64_t live = 0;

inline void count(int64_t bytes) {
  const int64_t now = measurement.load(std::memory_order_relaxed);
  if (now == 0) return;
  if (measured != now) live = 0;
  measured = now;
  // memory from before the measurement may be freed during it
  live = std::max<int64_t>(0, live + bytes);
  int64_t before = peak.load();
  while (before < live && !peak.compare_exchange_weak(before, live)) {
  }
}
inline void allocated(void* memory) {
  count(static_cast<int64_t>(malloc_usable_size(memory)));
}
inline void freed(void* memory) {
  count(-static_cast<int64_t>(malloc_usable_size(memory)));
}

/// The largest amount of memory that a thread allocated during `work`, beyond what it had before.
template <typename Work>
int64_t measure(Work work) {
  peak = 0;
  measurement = ++measurements;
  work();
  measurement = 0;
  return peak;
}

}  // namespace tessera::thread_peak
