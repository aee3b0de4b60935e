// A timeline of a run, by rank and stream: of a real run that the runtime records, or of a
// simulated one. This module knows names and times; it does not know tasks, actors or kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tessera {

/// An interval on a track.
struct Span {
  enum class Kind : uint8_t {
    kAct,     // one act of a task
    kKernel,  // one kernel inside of an act
    kCopy,    // an act that receives boxes, or moves them between two memories
    kWait,    // no task could act; it is named after the task that acted next
  };
  Kind kind = Kind::kAct;
  std::string name;
  int64_t iteration = 0;  // the number of earlier acts of the task
  int micro_batch = -1;   // -1: once per step
  Seconds begin{0}, end{0};
  std::string pass = "";  // the pipeline pass, such as "F2"; "": none

  bool operator==(const Span&) const = default;
};
std::string_view to_text(Span::Kind kind);  // "act", "kernel", "copy", "wait"

/// One stream of one rank.
struct Track {
  Rank rank = 0;
  std::string stream;
  std::vector<Span> spans;  // by begin; two of them are nested or do not overlap
};

/// A message from one rank to another. A ready register is used when the act that reads it begins;
/// a released slot is counted when its message arrives.
struct TimedMessage {
  enum class Kind : uint8_t { kReady, kReleased };
  Kind kind = Kind::kReady;
  std::string name;             // name of the register
  size_t from = 0, to = 0;      // indices of tracks
  Seconds sent{0}, arrived{0};  // arrived: when it was taken out of the mailbox
  Seconds used{0};
};

struct Timeline {
  std::vector<Track> tracks;
  std::vector<TimedMessage> messages;
  int64_t lost = 0;  // events beyond the capacity of the recorders
};

/// The JSON of Chrome's trace events, which ui.perfetto.dev and chrome://tracing open. A rank is a
/// process, a stream a thread, a span a slice. A message is a flow from the end of one act to the
/// beginning of another; a released slot is an instant. Times are in microseconds.
std::string to_trace_json(const Timeline& timeline);

}  // namespace tessera
