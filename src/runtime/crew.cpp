#include "runtime/crew.h"

#include "base/error.h"
#include "kernels/bind.h"
#include "kernels/kernel.h"

namespace tessera {

Crew::Crew(int size) {
  for (Begun& job : jobs_) job.errors.resize(size);
  try {
    for (int index = 0; index < size; ++index)
      threads_.emplace_back([this, index] { work(index); });
  } catch (
      ...) {  // the machine gives no more threads: those that run must end before this object does
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

void Crew::begin(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    ensure(begun_ < ended_ + kMostJobs, "a crew has room for the job");
    Begun& next = begun(begun_++);
    next.job = &job;
    next.busy = size();
  }
  started_.notify_all();
}

void Crew::end() {
  std::unique_lock lock(mutex_);
  ensure(ended_ < begun_, "a job is begun before it is ended");
  Begun& oldest = begun(ended_);
  done_.wait(lock, [&] { return oldest.busy == 0; });
  ++ended_;
  std::exception_ptr first;
  for (std::exception_ptr& error : oldest.errors) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void Crew::run(const Job& job) {
  begin(job);
  end();
}

void Crew::work(int index) {
  use_one_thread_for_kernels();
  std::unique_lock lock(mutex_);
  for (uint64_t number = 0;; ++number) {
    started_.wait(lock, [&] { return dismissed_ || begun_ > number; });
    if (begun_ == number) return;
    Begun& mine = begun(number);
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
