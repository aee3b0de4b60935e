// A pool of threads, one for each rank of this process. It does not know what they do.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

/// Every thread runs every job, each for its own index, in the order in which the jobs were begun.
/// A thread begins the next job as soon as it has done its part of the previous one; it does not
/// wait for the other threads.
///
///   threads  begin(), end() and run() are called by one thread
///   memory   allocates nothing
class ThreadPool {
 public:
  using Job = std::function<void(int index)>;
  static constexpr size_t kMaxJobs = 2;  // begun and not ended

  explicit ThreadPool(int size);
  /// Waits until every job that was begun is done.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Every thread will run job(its index), after the jobs that were begun before.
  ///   requires  fewer than kMaxJobs are begun and not ended; `job` stays until its end()
  void begin(const Job& job);
  /// Waits until all threads have done the oldest job that was begun and not ended.
  ///   throws  the exception of the job on the lowest index
  void end();
  /// begin() and end().  requires  every job that was begun is ended
  void run(const Job& job);

 private:
  struct BegunJob {
    const Job* job = nullptr;
    int busy = 0;  // threads that have not done it
    std::vector<std::exception_ptr> errors;
  };

  void run_jobs(int index);
  void stop();
  BegunJob& begun_job(uint64_t number) { return jobs_[number % kMaxJobs]; }

  std::mutex mutex_;
  std::condition_variable started_, done_;
  std::array<BegunJob, kMaxJobs> jobs_;
  uint64_t begun_ = 0, ended_ = 0;  // jobs so far
  bool is_stopping_ = false;
  std::atomic<int> has_begun_{0};  // threads, which begin one after the other
  std::vector<std::thread> threads_;
};

}  // namespace tessera
