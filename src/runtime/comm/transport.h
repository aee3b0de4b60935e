// Bytes between the processes of a run, which are on one machine or on several. A transport knows
// processes, messages and pieces of memory; it knows no ranks, tasks or placements. Every
// implementation is checked by one suite (runtime/comm/testing/transport_suite.h).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runtime/comm/collective_backend.h"

namespace tessera {

/// One process's end of the connections to all others.
///
///   messages  small; send() copies them. Those of a pair of processes arrive once and in order, no
///             matter what the receiver does meanwhile, also when the sender destroys its end.
///   data      pieces of memory that the receiver has asked for: it calls recv_data() and then
///             tells the sender, which answers with send_data(). Pieces of one pair and tag match
///             in order. Each side keeps its memory until its own countdown was lowered.
///   threads   one caller at a time; FrameChannel has the lock
///   memory    nothing is allocated once the largest number of pieces has been in flight
class Transport : public CollectiveBackend {
 public:
  static constexpr size_t kMaxMessageBytes = 4096;
  using OnMessage = std::function<void(int from, std::span<const std::byte> message)>;

  virtual int process() const = 0;  // the number of this process, from 0
  virtual int size() const = 0;     // the number of processes
  /// Tags of data are below it.
  virtual int tags() const = 0;

  /// Never waits.  requires  to != process(), at most kMaxMessageBytes
  virtual void send(int to, std::span<const std::byte> message) = 0;
  /// Never waits.  requires  0 <= tag < tags(); the other side's piece has as many bytes
  virtual void send_data(int to, int tag, std::span<const std::byte> data,
                         Countdown& in_flight) = 0;
  virtual void recv_data(int from, int tag, std::span<std::byte> data, Countdown& in_flight) = 0;

  /// After a failure: as far as this side can ensure it, no data is written to or read from the
  /// memory of this process any more.
  virtual void abandon() = 0;

  /// Makes progress and delivers the messages that have arrived.  returns  whether anything moved
  ///   requires  `on_message` does not call the transport
  virtual bool poll(const OnMessage& on_message) = 0;
};

}  // namespace tessera
