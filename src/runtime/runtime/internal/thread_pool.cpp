#include "runtime/runtime/internal/thread_pool.h"

#include "base/error.h"
#include "base/threads/address_space.h"
#include "kernels/bind.h"

namespace tessera {

ThreadPool::ThreadPool(int size) {
  for (BegunJob& job : jobs_) job.errors.resize(size);
  try {
    for (int index = 0; index < size; ++index) {
      require_memory_for_thread();
      threads_.emplace_back([this, index] { run_jobs(index); });
      // What libraries keep for a thread is allocated before anything else takes the memory.
      has_begun_.wait(index);
    }
  } catch (...) {
    // The machine has no more threads. The running ones must end before this object does.
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::begin(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    ensure(begun_ < ended_ + kMaxJobs, "at most two jobs are begun and not ended");
    BegunJob& next = begun_job(begun_++);
    next.job = &job;
    next.busy = size();
  }
  started_.notify_all();
}

void ThreadPool::end() {
  std::unique_lock lock(mutex_);
  ensure(ended_ < begun_, "a job is begun before it is ended");
  BegunJob& oldest = begun_job(ended_);
  done_.wait(lock, [&] { return oldest.busy == 0; });
  ++ended_;
  std::exception_ptr first;
  for (std::exception_ptr& error : oldest.errors) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::run(const Job& job) {
  begin(job);
  end();
}

void ThreadPool::run_jobs(int index) {
  use_one_thread_for_kernels();
  has_begun_ = index + 1;
  has_begun_.notify_one();
  std::unique_lock lock(mutex_);
  for (uint64_t number = 0;; ++number) {
    started_.wait(lock, [&] { return is_stopping_ || begun_ > number; });
    if (begun_ == number) return;
    BegunJob& mine = begun_job(number);
    const Job& job = *mine.job;
    lock.unlock();
    std::exception_ptr error;
    try {
      job(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    mine.errors[index] = error;
    if (--mine.busy == 0) done_.notify_one();
  }
}

}  // namespace tessera
