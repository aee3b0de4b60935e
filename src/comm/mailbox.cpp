#include "comm/mailbox.h"

#include <bit>
#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

/// Tells the core that it waits in a loop.
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
  const uint64_t drawn = drawn_.fetch_add(2, std::memory_order_acq_rel);
  const uint64_t number = drawn / 2;
  Cell& mine = cell(number);
  ensure(mine.turn.load(std::memory_order_acquire) == number,
         "a mailbox holds all messages that can be under way");
  mine.message = message;
  mine.turn.store(number + 1, std::memory_order_release);
  if (drawn & kAsleep) rouse();
}

bool Mailbox::take(Message& message) {
  if (!has_messages()) return false;
  Cell& oldest = cell(taken_);
  message = oldest.message;
  oldest.turn.store(taken_ + cells_.size(), std::memory_order_release);
  ++taken_;
  return true;
}

bool Mailbox::wait(const StopState& stop, Patience patience,
                   std::chrono::steady_clock::time_point deadline) {
  const auto is_over = [&] { return has_messages() || stop.stopped(); };
  for (int look = 0; look < patience.looks; ++look) {
    if (is_over()) return true;
    pause();
  }
  for (int offer = 0; offer < patience.offers; ++offer) {
    if (is_over()) return true;
    std::this_thread::yield();
  }
  while (!is_over())
    if (!sleep(stop, deadline)) return is_over();
  return true;
}

/// returns  false at the deadline
///
/// Whoever draws a number after the owner said that it sleeps rouses it once its message is in; and
/// of a number drawn before the owner knows, so that it does not sleep. Both changes are to one
/// word: there is no third case.
bool Mailbox::sleep(const StopState& stop, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (drawn_.fetch_or(kAsleep, std::memory_order_acq_rel) / 2 != taken_) {
    lock.unlock();  // a message is being put in
    std::this_thread::yield();
    return std::chrono::steady_clock::now() < deadline;
  }
  if (stop.stopped()) return true;
  return arrived_.wait_until(lock, deadline) == std::cv_status::no_timeout;
}

void Mailbox::rouse() {
  const bool is_first = drawn_.fetch_and(~kAsleep, std::memory_order_acq_rel) & kAsleep;
  if (is_first) wake();
}

void Mailbox::wake() {
  // Behind the lock the owner either has not looked yet or sleeps: the call cannot fall between.
  {
    const std::lock_guard lock(mutex_);
  }
  arrived_.notify_all();
}

}  // namespace tessera
