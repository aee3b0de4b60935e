// Where the messages of other ranks wait for a rank.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "actors/actor.h"
#include "comm/stop_state.h"

namespace tessera {

/// How long a rank looks for a message before it sleeps. A look is a few nanoseconds and keeps the
/// core; between the later ones the core is offered to others. When ranks share cores, looking
/// keeps those from working that one waits for.
struct Patience {
  int looks = 0;
  int offers = 0;
};

/// A ring. Who pushes draws a number and fills the cell of that number; the owner takes the cells
/// in turn. Nobody holds a lock but who wakes a sleeping owner.
///
///   threads  anyone pushes and wakes; one owner takes and waits
///   memory   made in the constructor
///   order    that of the pushes of each thread
///   source   cells that carry their turn: Vyukov, Bounded MPMC queue (1024cores.net)
class Mailbox {
 public:
  /// requires  never more than `capacity` messages are in it: the slots of the actors see to that
  explicit Mailbox(size_t capacity);

  /// throws  InternalError when it is full
  void push(const Message& message);

  /// The oldest message.  returns  false when there is none
  bool take(Message& message);

  /// Is there a message to take?  threads  the owner
  bool has_messages() const {
    return cell(taken_).turn.load(std::memory_order_acquire) == taken_ + 1;
  }

  /// Looks for a message, then sleeps until there is one or the run stops.  returns  false at the
  /// deadline
  bool wait(const StopState& stop, Patience patience,
            std::chrono::steady_clock::time_point deadline);

  /// Makes the owner look at the stop state again.
  void wake();

 private:
  static constexpr size_t kLine = 64;  // bytes that cores hand each other at once
  static constexpr uint64_t kAsleep = 1;

  struct alignas(kLine) Cell {
    /// Number of the message that belongs in here next; one more when that one is in it.
    std::atomic<uint64_t> turn{0};
    Message message;
  };

  Cell& cell(uint64_t number) { return cells_[number & (cells_.size() - 1)]; }
  const Cell& cell(uint64_t number) const { return cells_[number & (cells_.size() - 1)]; }
  bool sleep(const StopState& stop, std::chrono::steady_clock::time_point deadline);
  void rouse();

  std::vector<Cell> cells_;                        // as many as a power of two
  alignas(kLine) std::atomic<uint64_t> drawn_{0};  // twice how many numbers were drawn; and kAsleep
  alignas(kLine) uint64_t taken_ = 0;              // the owner's
  std::mutex mutex_;                               // of the sleep
  std::condition_variable arrived_;
};

}  // namespace tessera
