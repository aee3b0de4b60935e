// The part of a trace that the ranks of one process recorded, and the function that joins the
// parts.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/internal/record/recorder.h"

namespace tessera {

struct TracePart {
  /// It is the same in the processes of sender and receiver.
  struct MessageId {
    int program = 0;
    Message::Kind kind = Message::Kind::kReady;
    ActorId from = 0, to = 0;
    RegisterId reg = 0;
    int64_t iteration = 0;
    auto operator<=>(const MessageId&) const = default;
  };
  struct Sent {
    MessageId id;
    std::string name;  // name of the register
    size_t track = 0;
    Seconds time{0};
  };
  struct Arrived {
    MessageId id;
    size_t track = 0;
    Seconds time{0}, used{0};
  };
  Seconds start{0};           // on the clock of the process
  std::vector<Track> tracks;  // all times here are since `start`
  std::vector<Sent> sent;
  std::vector<Arrived> arrived;  // kReady only when an act used it
  int64_t lost = 0;
};

///   recorders, ranks  those of this process
///   requires  the ranks are idle
TracePart trace_part_of(const std::vector<const Recorder*>& recorders,
                        const std::vector<Rank>& ranks, Recorder::Time start);

std::vector<std::byte> to_bytes(const TracePart& part);
/// throws  InternalError when `bytes` is not what to_bytes() returns
TracePart trace_part_from(std::span<const std::byte> bytes);

/// All parts together, with times since the start of the first one. A message is included when both
/// its ends were recorded.
///   ahead  by part: the time by which its clock is ahead of the clock of the first part
Timeline joined(std::vector<TracePart> parts, const std::vector<Seconds>& ahead);

}  // namespace tessera
