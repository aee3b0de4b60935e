// What happened when, rank by rank and stream by stream: of a real run as the runtime records it,
// or of a virtual one. This room knows names and times; it does not know tasks, actors or kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tessera {

/// A stretch of time on a track.
struct Span {
  enum class Kind : uint8_t {
    kAct,     // one act of a task
    kKernel,  // one kernel inside of an act
    kCopy,    // boxes pulled, or moved between two memories, as an act
    kWait,    // nothing could go on: named after the task that came next
  };
  Kind kind = Kind::kAct;
  std::string name;
  int64_t record = 0;    // how often the task had acted before
  int micro_batch = -1;  // -1: once a step
  Seconds begin{0}, end{0};
  std::string pass = "";  // "F2": what the step does there; "": nothing of the kind

  bool operator==(const Span&) const = default;
};
std::string_view to_text(Span::Kind kind);  // "act", "kernel", "copy", "wait"

/// One stream of one rank.
struct Track {
  Rank rank = 0;
  std::string stream;
  std::vector<Span> spans;  // by begin; two of them are nested or do not overlap
};

/// What one rank told another. A register that is ready is used when the act begins that reads it;
/// a slot that is handed back is counted as soon as it arrives.
struct TimedMessage {
  enum class Kind : uint8_t { kReady, kReturned };
  Kind kind = Kind::kReady;
  std::string name;             // of the register
  size_t from = 0, to = 0;      // tracks
  Seconds sent{0}, arrived{0};  // taken out of the mailbox
  Seconds used{0};
};

struct Timeline {
  std::vector<Track> tracks;
  std::vector<TimedMessage> messages;
  int64_t lost = 0;  // events for which there was no room
};

/// The JSON of Chrome's trace events, which ui.perfetto.dev and chrome://tracing open: a process a
/// rank, a thread a stream, a slice a span, a flow from the end of one act to the beginning of
/// another a message, an instant a slot that was handed back. Times in microseconds.
std::string to_trace_json(const Timeline& timeline);

}  // namespace tessera
