#include "executor/trace_part.h"

#include <map>
#include <utility>

#include "comm/plain_bytes.h"

namespace tessera {
namespace {

/// What of a span is plain; its name and its pass stand behind.
struct PlainSpan {
  Span::Kind kind = Span::Kind::kAct;
  int64_t record = 0;
  int micro_batch = -1;
  Seconds begin{0}, end{0};
};

void put_track(std::vector<std::byte>& bytes, const Track& track) {
  put(bytes, track.rank);
  put_text(bytes, track.stream);
  put(bytes, track.spans.size());
  for (const Span& span : track.spans) {
    put(bytes, PlainSpan{span.kind, span.record, span.micro_batch, span.begin, span.end});
    put_text(bytes, span.name);
    put_text(bytes, span.pass);
  }
}

Track read_track(PlainReader& reader) {
  Track track;
  track.rank = reader.value<Rank>();
  track.stream = reader.text();
  track.spans.resize(reader.value<size_t>());
  for (Span& span : track.spans) {
    const auto plain = reader.value<PlainSpan>();
    std::string name = reader.text();
    span = {plain.kind,  std::move(name), plain.record, plain.micro_batch,
            plain.begin, plain.end,       reader.text()};
  }
  return track;
}

/// Adds what stands on tracks from `first_track` on, `shift` later.
class Joiner {
 public:
  void add(TracePart part, Seconds shift) {
    const size_t first = timeline_.tracks.size();
    timeline_.lost += part.lost;
    for (Track& track : part.tracks) {
      for (Span& span : track.spans) span.begin = span.begin + shift, span.end = span.end + shift;
      timeline_.tracks.push_back(std::move(track));
    }
    for (TracePart::Sent& sent : part.sent) {
      sent.track += first, sent.time = sent.time + shift;
      sent_.push_back(std::move(sent));
    }
    for (const TracePart::Arrived& arrived : part.arrived)
      arrived_[arrived.id] = {arrived.id, arrived.track + first, arrived.time + shift,
                              arrived.used + shift};
  }

  Timeline run() {
    for (TracePart::Sent& sent : sent_) {
      const auto found = arrived_.find(sent.id);
      if (found == arrived_.end()) continue;
      const TracePart::Arrived& arrived = found->second;
      const auto kind = sent.id.kind == Message::Kind::kReady ? TimedMessage::Kind::kReady
                                                              : TimedMessage::Kind::kReturned;
      timeline_.messages.push_back({kind, std::move(sent.name), sent.track, arrived.track,
                                    sent.time, arrived.time, arrived.used});
    }
    return std::move(timeline_);
  }

 private:
  Timeline timeline_;
  std::vector<TracePart::Sent> sent_;
  std::map<TracePart::MessageId, TracePart::Arrived> arrived_;
};

}  // namespace

std::vector<std::byte> to_bytes(const TracePart& part) {
  std::vector<std::byte> bytes;
  put(bytes, part.start);
  put(bytes, part.lost);
  put(bytes, part.tracks.size());
  for (const Track& track : part.tracks) put_track(bytes, track);
  put(bytes, part.sent.size());
  for (const TracePart::Sent& sent : part.sent) {
    put(bytes, sent.id);
    put_text(bytes, sent.name);
    put(bytes, sent.track);
    put(bytes, sent.time);
  }
  put(bytes, part.arrived.size());
  for (const TracePart::Arrived& arrived : part.arrived) put(bytes, arrived);
  return bytes;
}

TracePart trace_part_from(std::span<const std::byte> bytes) {
  PlainReader reader(bytes);
  TracePart part;
  part.start = reader.value<Seconds>();
  part.lost = reader.value<int64_t>();
  part.tracks.resize(reader.value<size_t>());
  for (Track& track : part.tracks) track = read_track(reader);
  part.sent.resize(reader.value<size_t>());
  for (TracePart::Sent& sent : part.sent) {
    sent.id = reader.value<TracePart::MessageId>();
    sent.name = reader.text();
    sent.track = reader.value<size_t>();
    sent.time = reader.value<Seconds>();
  }
  part.arrived.resize(reader.value<size_t>());
  for (TracePart::Arrived& arrived : part.arrived) arrived = reader.value<TracePart::Arrived>();
  return part;
}

Timeline joined(std::vector<TracePart> parts, const std::vector<Seconds>& ahead) {
  Joiner joiner;
  const Seconds start = parts.front().start;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Seconds shift = parts[i].start - ahead[i] - start;
    joiner.add(std::move(parts[i]), shift);
  }
  return joiner.run();
}

}  // namespace tessera
