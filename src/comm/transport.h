// Bytes between the members of a run: programs on one machine or on many, each with some of the
// ranks. It knows members, messages, pieces of memory and numbers in them; it knows no tasks and no
// placements. The contract of every implementation, checked by one suite (transport_testing.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace tessera {

/// Pieces of memory that are still under way. The owner sets it, the transport counts it down, and
/// whoever sees 0 may use the memory.
using Countdown = std::atomic<int>;

/// What the members of a group do together: each gives a dense part and gets one.
struct Collective {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather };
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kF32;
  std::vector<int> members = {};  // ascending
  std::vector<int> counts =
      {};  // elements: of an all-reduce one number; else what each member gets, or gives
  std::vector<int> begins =
      {};  // where in the whole those of each member begin; none for an all-reduce
};

/// What one member has of it.
///
///   messages  small, copied by send(); those of a pair arrive once, in the order in which they
///   were sent, whatever the other side does data      pieces of memory that a receiver has asked
///   for: receive() first, then tell the sender, who answers with send_data(). Those of a
///             pair and a tag go together in order. The memory stays as it is until its countdown
///             was lowered, on each side by itself
///   groups    what a group does together its members begin in one order; sums are added in
///   whatever order threads   one caller at a time: Network sees to it memory    nothing is
///   allocated once as much as ever is under way
class Transport {
 public:
  static constexpr size_t kMostMessageBytes = 4096;
  using OnMessage = std::function<void(int from, std::span<const std::byte> message)>;

  virtual ~Transport() = default;

  virtual int member() const = 0;   // this one
  virtual int members() const = 0;  // all, from 0
  /// Tags of data are below it.
  virtual int tags() const = 0;

  /// Never waits.  requires  to != member(), at most kMostMessageBytes
  virtual void send(int to, std::span<const std::byte> message) = 0;
  /// Never waits.  requires  0 <= tag < tags(); the other side's piece has as many bytes
  virtual void send_data(int to, int tag, std::span<const std::byte> data,
                         Countdown& under_way) = 0;
  virtual void receive(int from, int tag, std::span<std::byte> data, Countdown& under_way) = 0;

  /// A group of members: its number.  requires  each of them calls it, and all that are in two
  /// groups call for these in the same order
  ///   waits  for the others
  virtual int new_group(std::span<const int> members) = 0;
  /// Never waits.  requires  `group` is of what.members; `what`, `source` and `target` stay until
  /// the countdown was lowered
  virtual void begin(const Collective& what, int group, const std::byte* source, std::byte* target,
                     Countdown& under_way) = 0;

  /// After a failure: from here on no data comes into the memory of this member, nor is taken from
  /// it, as far as this side can see to it.
  virtual void abandon() = 0;

  /// Moves what can be moved and hands over what has come in.  returns  whether there was anything
  ///   requires  `on_message` does not call the transport
  virtual bool poll(const OnMessage& on_message) = 0;
};

}  // namespace tessera
