#include "runtime/mailbox.h"

#include <thread>

namespace tessera {

Mailbox::Mailbox(size_t capacity) {
  messages_.reserve(capacity);
}

void Mailbox::push(const Message& message) {
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(message);
    count_.store(messages_.size(), std::memory_order_release);
  }
  arrived_.notify_one();
}

void Mailbox::take(std::vector<Message>& messages) {
  const std::lock_guard lock(mutex_);
  messages.swap(messages_);
  count_.store(0, std::memory_order_release);
}

bool Mailbox::wait(const StopState& stop, int spins, std::chrono::steady_clock::time_point deadline) {
  const auto is_over = [&] { return count_.load(std::memory_order_acquire) > 0 || stop.stopped(); };
  for (int spin = 0; spin < spins; ++spin) {
    if (is_over()) return true;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  return arrived_.wait_until(lock, deadline, is_over);
}

void Mailbox::wake() {
  // Behind the lock the owner either has not looked yet or sleeps: the call cannot fall between.
  {
    const std::lock_guard lock(mutex_);
  }
  arrived_.notify_all();
}

}  // namespace tessera
