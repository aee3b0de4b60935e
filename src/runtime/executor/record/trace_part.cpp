#include "runtime/executor/record/trace_part.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/comm/plain_bytes.h"

namespace tessera {
namespace {

/// Replaces the tasks and clock ticks of the recorders by names and times.
class PartMaker {
 public:
  PartMaker(const std::vector<const Recorder*>& recorders, const std::vector<Rank>& ranks,
            Recorder::Time start)
      : recorders_(recorders), start_(start) {
    part_.start = Recorder::seconds_of(start);
    for (size_t rank = 0; rank < ranks.size(); ++rank) add_tracks(rank, ranks[rank]);
  }

  TracePart run() {
    for (size_t rank = 0; rank < recorders_.size(); ++rank) add_spans(rank);
    for (size_t rank = 0; rank < recorders_.size(); ++rank) {
      for (const auto& event : recorders_[rank]->sent()) add_sent(rank, event);
      for (const auto& event : recorders_[rank]->arrived()) add_arrived(rank, event);
    }
    return std::move(part_);
  }

 private:
  using ActKey = std::tuple<size_t, const Task*, int64_t>;

  struct ActSpan {
    Seconds begin{0};
    size_t track = 0;
  };

  Seconds since_start(Recorder::Time time) const {
    return Seconds(std::chrono::duration<double>(time - start_).count());
  }

  /// Adds a track for the thread of a rank, one for prefetches and one for each stream of its
  /// device that was used.
  void add_tracks(size_t index, Rank rank) {
    std::array<size_t, kTaskStreams>& tracks = tracks_.emplace_back();
    for (int i = 0; i < kTaskStreams; ++i) {
      const auto stream = static_cast<TaskStream>(i);
      const auto& spans = recorders_[index]->spans();
      const bool is_used = std::any_of(spans.begin(), spans.end(),
                                       [&](const auto& event) { return event.stream == stream; });
      if (i > 0 && !is_used) continue;
      tracks[i] = part_.tracks.size();
      part_.tracks.push_back({rank, std::string(to_text(stream)), {}});
    }
  }

  size_t track_of(size_t rank, TaskStream stream) const {
    return tracks_[rank][static_cast<size_t>(stream)];
  }

  void add_spans(size_t rank) {
    for (const Recorder::SpanEvent& event : recorders_[rank]->spans()) {
      std::vector<Span>& spans = part_.tracks[track_of(rank, event.stream)].spans;
      spans.push_back({event.kind, event.step ? event.step->op.text() : event.task->name,
                       event.iteration, event.task->micro_batch, since_start(event.begin),
                       since_start(event.end), pass_text(*event.task)});
      if (event.kind == Span::Kind::kAct || event.kind == Span::Kind::kCopy)
        acts_[{rank, event.task, event.iteration}] = {since_start(event.begin),
                                                      track_of(rank, event.stream)};
    }
    // An act is recorded when it ends, after its kernels, and comes before them here.
    for (Track& track : part_.tracks)
      std::stable_sort(track.spans.begin(), track.spans.end(), [](const Span& a, const Span& b) {
        return std::tuple(a.begin, b.end) < std::tuple(b.begin, a.end);
      });
    part_.lost += recorders_[rank]->lost();
  }

  static TracePart::MessageId id_of(const Recorder::MessageEvent& event) {
    const Message& message = event.message;
    return {event.program, message.kind, message.from, message.to, message.reg, message.iteration};
  }

  void add_sent(size_t rank, const Recorder::MessageEvent& event) {
    const auto act = acts_.find({rank, event.task, event.message.iteration});
    const size_t track = act == acts_.end() ? track_of(rank, event.stream) : act->second.track;
    part_.sent.push_back(
        {id_of(event), (*event.registers)[event.reg].name, track, since_start(event.time)});
  }

  void add_arrived(size_t rank, const Recorder::MessageEvent& event) {
    const auto act = acts_.find({rank, event.task, event.message.iteration});
    Seconds used = since_start(event.time);
    if (event.message.kind == Message::Kind::kReady) {
      if (act == acts_.end()) return;
      used = act->second.begin;
    }
    const size_t track = act == acts_.end() ? track_of(rank, event.stream) : act->second.track;
    part_.arrived.push_back({id_of(event), track, since_start(event.time), used});
  }

  const std::vector<const Recorder*>& recorders_;
  const Recorder::Time start_;
  TracePart part_;
  std::vector<std::array<size_t, kTaskStreams>> tracks_;  // by rank and stream
  std::map<ActKey, ActSpan> acts_;
};

/// The fields of a span that have a fixed size; its name and its pass follow them.
struct PlainSpan {
  Span::Kind kind = Span::Kind::kAct;
  int64_t iteration = 0;
  int micro_batch = -1;
  Seconds begin{0}, end{0};
};

void put_track(std::vector<std::byte>& bytes, const Track& track) {
  put(bytes, track.rank);
  put_text(bytes, track.stream);
  put(bytes, track.spans.size());
  for (const Span& span : track.spans) {
    put(bytes, PlainSpan{span.kind, span.iteration, span.micro_batch, span.begin, span.end});
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
    span = {plain.kind,  std::move(name), plain.iteration, plain.micro_batch,
            plain.begin, plain.end,       reader.text()};
  }
  return track;
}

/// Joins parts on one clock.
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
                                                              : TimedMessage::Kind::kReleased;
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

TracePart trace_part_of(const std::vector<const Recorder*>& recorders,
                        const std::vector<Rank>& ranks, Recorder::Time start) {
  return PartMaker(recorders, ranks, start).run();
}

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
