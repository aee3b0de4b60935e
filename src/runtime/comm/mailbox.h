// The queue of messages that other ranks have sent to a rank.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/comm/stop_state.h"
#include "task_graph/actors/actor.h"

namespace tessera {

/// The way in which a rank waits for a message before it sleeps: it checks `spins` times, a few
/// nanoseconds each, and then `yields` times, each time after it has yielded its core to other
/// threads. When ranks share cores, a rank that spins delays the ranks for which it waits.
struct SpinPolicy {
  int spins = 0;
  int yields = 0;
};

/// A ring buffer of messages. A sender takes the next number and fills the cell of that number; the
/// owner empties the cells in the same order. No lock is taken except to wake an owner that sleeps.
///
///   threads  any push and wake; one owner takes and waits
///   memory   allocated in the constructor
///   order    messages of one thread are taken in the order in which it pushed them
///   source   cells that carry their turn: Vyukov, Bounded MPMC queue (1024cores.net)
class Mailbox {
 public:
  /// requires  never more than `capacity` messages are in it: the slots of the actors bound them
  explicit Mailbox(size_t capacity);

  /// throws  InternalError when it is full
  void push(const Message& message);

  /// Takes the oldest message.  returns  false when there is none
  bool take(Message& message);

  /// Is there a message to take?  threads  the owner
  bool has_messages() const {
    return cell(taken_).turn.load(std::memory_order_acquire) == taken_ + 1;
  }

  /// Spins, then sleeps until there is a message or the run stops.  returns  false at the deadline
  bool wait(const StopState& stop, SpinPolicy policy,
            std::chrono::steady_clock::time_point deadline);

  /// Makes the owner check the stop state again.
  void wake();

  /// Does the owner sleep, or has it found nothing and is about to?  threads  any
  bool is_asleep() const { return pushed_.load(std::memory_order_acquire) & kAsleep; }

 private:
  static constexpr size_t kLine = 64;  // bytes of a cache line
  static constexpr uint64_t kAsleep = 1;

  struct alignas(kLine) Cell {
    /// The number of the next message of this cell; one more when that message is in it.
    std::atomic<uint64_t> turn{0};
    Message message;
  };

  Cell& cell(uint64_t number) { return cells_[number & (cells_.size() - 1)]; }
  const Cell& cell(uint64_t number) const { return cells_[number & (cells_.size() - 1)]; }
  bool sleep(const StopState& stop, std::chrono::steady_clock::time_point deadline);
  void wake_if_asleep();

  std::vector<Cell> cells_;                         // their number is a power of two
  alignas(kLine) std::atomic<uint64_t> pushed_{0};  // twice the number of pushes, plus kAsleep
  alignas(kLine) uint64_t taken_ = 0;               // used by the owner
  std::mutex mutex_;  // guards the step from "no message" to sleeping, against wake()
  std::condition_variable arrived_;
};

}  // namespace tessera
