// Independent pieces of work on all cores of the machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

/// Calls work(0), ..., work(count - 1), each once, on the thread of the caller and as many others
/// as there are further cores.
///   throws  what the first failed call throws; calls that have not begun by then are left out
template <typename Work>
void on_all_cores(int64_t count, const Work& work) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto loop = [&] {
    for (int64_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
  };
  {
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> others;
    for (int64_t t = 1; t < std::min(cores, count); ++t) others.emplace_back(loop);
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
