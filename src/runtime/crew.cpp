#include "runtime/crew.h"

#include "kernels/kernel.h"

namespace tessera {

Crew::Crew(int size) : errors_(static_cast<size_t>(size)) {
  try {
    for (int index = 0; index < size; ++index) threads_.emplace_back([this, index] { work(index); });
  } catch (...) {  // the machine gives no more threads: those that run must end before this object does
    dismiss();
    throw;
  }
}

Crew::~Crew() {
  dismiss();
}

void Crew::dismiss() {
  {
    const std::lock_guard lock(mutex_);
    dismissed_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(const Job& job) {
  std::unique_lock lock(mutex_);
  job_ = &job;
  ++jobs_;
  busy_ = size();
  started_.notify_all();
  ended_.wait(lock, [this] { return busy_ == 0; });
  job_ = nullptr;
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void Crew::work(int index) {
  use_one_thread_for_kernels();
  std::unique_lock lock(mutex_);
  for (uint64_t done = 0;; ++done) {
    started_.wait(lock, [&] { return dismissed_ || jobs_ > done; });
    if (dismissed_) return;
    const Job& job = *job_;
    lock.unlock();
    std::exception_ptr error;
    try {
      job(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[static_cast<size_t>(index)] = error;
    if (--busy_ == 0) ended_.notify_one();
  }
}

}  // namespace tessera
