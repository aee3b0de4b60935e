#include "runtime/device/internal/stream_thread.h"

#include <utility>

namespace tessera {

void wait_until(std::chrono::steady_clock::time_point time) {
  constexpr std::chrono::microseconds kLate{100};
  if (time - std::chrono::steady_clock::now() > kLate) std::this_thread::sleep_until(time - kLate);
  while (std::chrono::steady_clock::now() < time) std::this_thread::yield();
}

StreamThread::StreamThread(std::function<void(const Work&)> run)
    : run_(std::move(run)), thread_([this] { work(); }) {}

StreamThread::~StreamThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void StreamThread::give(Work work) {
  work.given = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(work);
  }
  given_.notify_one();
}

void StreamThread::work() {
  std::vector<Work> list;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      list.swap(waiting_);
    }
    for (const Work& one : list) run_one(one);
    list.clear();
  }
}

void StreamThread::run_one(const Work& work) {
  if (work.event) {
    work.event->reach(error_);
  } else if (!error_) {
    try {
      run_(work);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
}

}  // namespace tessera
