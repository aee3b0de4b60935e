// Waits of tests for other threads. A test waits for an event, never for a time: a busy machine
// may run any thread seconds late.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

namespace tessera {

/// Waits until `condition` is true, however late the machine runs other threads.
///
///   returns  false after minutes in which it did not become true: what it waits for hangs
inline bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Gives a fault some milliseconds to show. Correct code passes however the machine runs the
/// threads; on a busy machine a fault may be missed.
///
///   condition  may never become true
inline bool stays_false(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return false;
    std::this_thread::yield();
  }
  return !condition();
}

/// Calls its function when it is destroyed: just before the objects that were made before it.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> act) : act_(std::move(act)) {}
  ~AtEnd() { act_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  std::function<void()> act_;
};

}  // namespace tessera
