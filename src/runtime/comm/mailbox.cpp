#include "runtime/comm/mailbox.h"

#include <bit>
#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

/// Tells the core that this is a spin loop.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Mailbox::Mailbox(size_t capacity) : cells_(std::bit_ceil(capacity)) {
  for (size_t i = 0; i < cells_.size(); ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
}

void Mailbox::push(const Message& message) {
  const uint64_t pushed = pushed_.fetch_add(2, std::memory_order_acq_rel);
  const uint64_t number = pushed / 2;
  Cell& mine = cell(number);
  ensure(mine.turn.load(std::memory_order_acquire) == number,
         "a mailbox holds all messages that can be in flight");
  mine.message = message;
  mine.turn.store(number + 1, std::memory_order_release);
  if (pushed & kAsleep) wake_if_asleep();
}

bool Mailbox::take(Message& message) {
  if (!has_messages()) return false;
  Cell& oldest = cell(taken_);
  message = oldest.message;
  oldest.turn.store(taken_ + cells_.size(), std::memory_order_release);
  ++taken_;
  return true;
}

bool Mailbox::wait(const StopState& stop, SpinPolicy policy,
                   std::chrono::steady_clock::time_point deadline) {
  const auto is_over = [&] { return has_messages() || stop.stopped(); };
  for (int spin = 0; spin < policy.spins; ++spin) {
    if (is_over()) return true;
    pause();
  }
  for (int yield = 0; yield < policy.yields; ++yield) {
    if (is_over()) return true;
    std::this_thread::yield();
  }
  while (!is_over())
    if (!sleep(stop, deadline)) return is_over();
  return true;
}

/// Sleeps until there is a message.
///   returns  false at the deadline
///
/// The number of pushes and kAsleep are one word, so there are two cases. A sender that takes its
/// number after kAsleep was set wakes the owner once its message is in the cell. If the number was
/// taken before, the owner sees it and does not sleep.
bool Mailbox::sleep(const StopState& stop, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (pushed_.fetch_or(kAsleep, std::memory_order_acq_rel) / 2 != taken_) {
    lock.unlock();  // a sender is filling its cell
    std::this_thread::yield();
    return std::chrono::steady_clock::now() < deadline;
  }
  if (stop.stopped()) return true;
  return arrived_.wait_until(lock, deadline) == std::cv_status::no_timeout;
}

void Mailbox::wake_if_asleep() {
  const bool is_first = pushed_.fetch_and(~kAsleep, std::memory_order_acq_rel) & kAsleep;
  if (is_first) wake();
}

void Mailbox::wake() {
  // When the lock is free, the owner has not checked yet or it sleeps, so it cannot miss this.
  {
    const std::lock_guard lock(mutex_);
  }
  arrived_.notify_all();
}

}  // namespace tessera
