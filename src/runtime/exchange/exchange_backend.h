// The interface of the code that executes an exchange. An exchange among ranks of one process has
// no backend: its receiver combines the boxes from the memory of its senders
// (runtime/comm/box_combine.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "runtime/comm/box_combine.h"

namespace tessera {

/// The boxes that a receiver fills, part after part, each combined from some of the sources. The
/// sources are the slots of the senders, by input port, followed by addresses that a backend sets.
struct BoxCombination {
  struct PartBox {
    size_t part = 0;
    BoxCombine box;
  };
  std::vector<PartBox> boxes;
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;  // by part: the output register of the receiver

  void run(size_t box) const { boxes[box].box.run(targets[boxes[box].part], sources); }
};

/// One exchange of one rank, act after act, among a group of ranks that is fixed when the exchange
/// is bound. start() and advance() never wait. The transfers that they begin are ordered on the
/// stream on which the exchange acts; for the backends of this folder that is the thread of the
/// rank. A backend with streams of its own, such as NCCL, enqueues the transfer there and is over
/// when an event after it is complete. A backend for another device is a folder that implements
/// this class and Device.
///
///   threads  the thread of the receiver; has_news() any thread
///   memory   nothing is allocated in the steady state
class ExchangeBackend {
 public:
  /// The memory of one act. It stays until the act is over.
  struct Buffers {
    std::span<std::byte* const> targets;  // by part: the output registers of the receiver
    std::byte* staging = nullptr;         // staging_bytes() bytes
  };

  virtual ~ExchangeBackend() = default;
  /// Makes the groups that it needs.
  ///   requires  the ranks of all processes are bound, and all processes call it in the same order
  virtual void join_group() {}
  /// May it start before its senders have filled what it receives?
  virtual bool may_prefetch() const = 0;
  virtual Bytes staging_bytes() const = 0;

  /// Begins act number `iteration`.
  virtual void start(int64_t iteration, const Buffers& buffers) = 0;
  /// Combines the data that has arrived.
  ///   requires  the senders of this process have filled the slots to which `combination` points
  ///   returns   whether there was anything to do
  virtual bool advance(BoxCombination& combination) = 0;
  /// Would advance() do something, or is the act over?
  virtual bool has_news() const = 0;
  virtual bool is_over() const = 0;
  /// What the act waits for, for the message of a missed deadline: "bytes of ranks of other
  /// processes".
  virtual std::string_view awaited() const = 0;
};

}  // namespace tessera
