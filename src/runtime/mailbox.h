// Where the messages of other ranks wait for a rank.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "actors/actor.h"
#include "runtime/stop_state.h"

namespace tessera {

/// threads  anyone pushes and wakes; one owner takes and waits
/// memory   holds `capacity` messages, all made in the constructor
class Mailbox {
 public:
  explicit Mailbox(size_t capacity);

  void push(const Message& message);

  /// Moves all messages into `messages`.  requires  `messages` is empty and has room for `capacity`, so that nothing is allocated
  void take(std::vector<Message>& messages);

  /// Looks for a message `spins` times, then sleeps until there is one or the run stops.  returns  false at the deadline
  bool wait(const StopState& stop, int spins, std::chrono::steady_clock::time_point deadline);

  /// Is there a message to take?  threads  the owner
  bool has_messages() const { return count_.load(std::memory_order_acquire) > 0; }

  /// Makes the owner look at the stop state again.
  void wake();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
  std::atomic<size_t> count_{0};  // of messages_: read while spinning, without the lock
};

}  // namespace tessera
