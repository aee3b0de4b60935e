// What the ranks of one member wrote down, on its way to the member that puts together what all
// did.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/recorder.h"

namespace tessera {

struct TracePart {
  /// The same on all members.
  struct MessageId {
    int program = 0;
    Message::Kind kind = Message::Kind::kReady;
    ActorId from = 0, to = 0;
    RegisterId reg = 0;
    int64_t record = 0;
    auto operator<=>(const MessageId&) const = default;
  };
  struct Sent {
    MessageId id;
    std::string name;  // of the register
    size_t track = 0;
    Seconds time{0};
  };
  struct Arrived {
    MessageId id;
    size_t track = 0;
    Seconds time{0}, used{0};
  };
  Seconds start{0};           // on the clock of the member
  std::vector<Track> tracks;  // times since `start`, as all here
  std::vector<Sent> sent;
  std::vector<Arrived> arrived;  // a register that is ready only with the act that used it
  int64_t lost = 0;
};

/// Of ranks that rest.  recorders, ranks  those of this member
TracePart trace_part_of(const std::vector<const Recorder*>& recorders,
                        const std::vector<Rank>& ranks, Recorder::Time start);

std::vector<std::byte> to_bytes(const TracePart& part);
/// throws  InternalError when these are no such bytes
TracePart trace_part_from(std::span<const std::byte> bytes);

/// All parts with times since the first one's start. A message is there when both its ends are.
///   ahead  by part: by how much its clock is ahead of that of the first
Timeline joined(std::vector<TracePart> parts, const std::vector<Seconds>& ahead);

}  // namespace tessera
