// The frames that ranks send to ranks of other processes. Programs have the same numbers in all
// processes.
#pragma once

#include <cstdint>

#include "task_graph/actors/actor.h"

namespace tessera {

/// The first byte of every message between processes. Each kind has one handler.
enum class FrameKind : uint8_t {
  kActorMessage,
  kFetchRequest,
  kHostBytes,
  kStop,
  kHeartbeat,
  kClockQuestion,
  kClockAnswer,
};
constexpr int kFrameKinds = 7;

/// A receiver requests all pieces that one sender has for it of an exchange in one iteration. The
/// sender keeps them until they are released. A request may come before the sender has filled its
/// register.
struct FetchRequest {
  int program = 0;
  ActorId exchange = 0;  // the exchange of the receiver
  int sender = 0;        // rank index
  int tag = 0;           // of pieces that are received in place; staged ones have the next tag
  int64_t iteration = 0;
};

struct RankFrame {
  FrameKind kind = FrameKind::kActorMessage;
  int program = 0;
  Message message;       // for kActorMessage
  FetchRequest request;  // for kFetchRequest
};

}  // namespace tessera
