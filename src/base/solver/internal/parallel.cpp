#include "base/solver/internal/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace tessera::solver {

void run_tasks(const std::vector<std::function<void()>>& tasks, int threads) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first_failure;
  const auto take_tasks = [&] {
    for (size_t task = next++; task < tasks.size(); task = next++) {
      try {
        tasks[task]();
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first_failure) first_failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < std::min(threads, static_cast<int>(tasks.size())); ++thread)
      helpers.emplace_back(take_tasks);
    take_tasks();
  }
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace tessera::solver
