// The most that one thread has allocated at once, for tests; allocation_testing.h tells it what is
// allocated and freed.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tessera::thread_peak {

inline std::atomic<int64_t> measurements{0};  // so far
inline std::atomic<int64_t> measurement{0};   // number of the one that is on; 0: none is
inline std::atomic<int64_t> peak{0};          // of the thread with most
inline thread_local int64_t measured = 0;     // the measurement that `live` is of
inline thread_local int64_t live = 0;

inline void count(int64_t bytes) {
  const int64_t now = measurement.load(std::memory_order_relaxed);
  if (now == 0) return;
  if (measured != now) live = 0;
  measured = now;
  live = std::max<int64_t>(0, live + bytes);  // what was there before the measurement may go in it
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

/// Bytes that the thread with most of them had at once during `work`, beyond what it had before.
template <typename Work>
int64_t of(Work work) {
  peak = 0;
  measurement = ++measurements;
  work();
  measurement = 0;
  return peak;
}

}  // namespace tessera::thread_peak
