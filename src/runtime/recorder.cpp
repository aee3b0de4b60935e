#include "runtime/recorder.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "runtime/rank_program.h"

namespace tessera {
namespace {

class TimelineMaker {
 public:
  TimelineMaker(const std::vector<Recorder>& recorders, const std::vector<Rank>& ranks, Recorder::Time start)
      : recorders_(recorders), start_(start) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) add_tracks(rank, ranks[rank]);
  }

  Timeline run() {
    for (size_t rank = 0; rank < recorders_.size(); ++rank) add_spans(rank);
    for (size_t rank = 0; rank < recorders_.size(); ++rank)
      for (const auto& event : recorders_[rank].arrived()) arrived_[key_of(event)] = event.time;
    for (size_t rank = 0; rank < recorders_.size(); ++rank)
      for (const auto& event : recorders_[rank].sent()) add_message(rank, event);
    return std::move(timeline_);
  }

 private:
  using MessageKey = std::tuple<const BoundProgram*, Message::Kind, ActorId, ActorId, RegisterId, int64_t>;
  using ActKey = std::tuple<size_t, const Task*, int64_t>;

  static MessageKey key_of(const Recorder::MessageEvent& event) {
    const Message& message = event.message;
    return {event.program, message.kind, message.from, message.to, message.reg, message.record};
  }

  Seconds since_start(Recorder::Time time) const { return Seconds(std::chrono::duration<double>(time - start_).count()); }

  /// One for the thread of a rank, and one for each stream of its device that did something.
  void add_tracks(size_t index, Rank rank) {
    std::array<size_t, kTaskStreams>& tracks = tracks_.emplace_back();
    for (int i = 0; i < kTaskStreams; ++i) {
      const auto stream = static_cast<TaskStream>(i);
      const auto& spans = recorders_[index].spans();
      const bool is_used = std::any_of(spans.begin(), spans.end(), [&](const auto& event) { return event.stream == stream; });
      if (i > 0 && !is_used) continue;
      tracks[static_cast<size_t>(i)] = timeline_.tracks.size();
      timeline_.tracks.push_back({rank, std::string(to_text(stream)), {}});
    }
  }

  size_t track_of(size_t rank, TaskStream stream) const { return tracks_[rank][static_cast<size_t>(stream)]; }

  void add_spans(size_t rank) {
    for (const Recorder::SpanEvent& event : recorders_[rank].spans()) {
      std::vector<Span>& spans = timeline_.tracks[track_of(rank, event.stream)].spans;
      spans.push_back({event.kind, event.step ? event.step->op : event.task->name, event.record, event.task->micro_batch,
                       since_start(event.begin), since_start(event.end), pass_text(*event.task)});
      if (event.kind == Span::Kind::kAct || event.kind == Span::Kind::kCopy)
        act_begins_[{rank, event.task, event.record}] = since_start(event.begin);
    }
    // What surrounds comes first: an act is written down when it ends, after its kernels.
    for (Track& track : timeline_.tracks)
      std::stable_sort(track.spans.begin(), track.spans.end(),
                       [](const Span& a, const Span& b) { return std::tuple(a.begin, b.end) < std::tuple(b.begin, a.end); });
    timeline_.lost += recorders_[rank].lost();
  }

  void add_message(size_t from, const Recorder::MessageEvent& event) {
    const auto arrived = arrived_.find(key_of(event));
    if (arrived == arrived_.end()) return;
    const TaskGraph& graph = *event.program->graph;
    const TaskActors& actors = *event.program->actors;
    const auto to = static_cast<size_t>(actors.rank_index_of(event.message.to));
    const Task& reader = graph.tasks[static_cast<size_t>(actors.task_of(event.message.to))];
    const Register& reg = graph.registers[static_cast<size_t>(actors.register_of(event.message.reg))];
    const Task& sender = graph.tasks[static_cast<size_t>(actors.task_of(event.message.from))];
    TimedMessage message{TimedMessage::Kind::kReturned,
                         reg.name,
                         track_of(from, stream_of(graph, sender)),
                         track_of(to, stream_of(graph, reader)),
                         since_start(event.time),
                         since_start(arrived->second),
                         {}};
    message.used = message.arrived;
    if (event.message.kind == Message::Kind::kReady) {
      const auto used = act_begins_.find({to, &reader, event.message.record});
      if (used == act_begins_.end()) return;
      message.kind = TimedMessage::Kind::kReady;
      message.used = used->second;
    }
    timeline_.messages.push_back(std::move(message));
  }

  const std::vector<Recorder>& recorders_;
  const Recorder::Time start_;
  Timeline timeline_;
  std::vector<std::array<size_t, kTaskStreams>> tracks_;  // by rank index and stream
  std::map<MessageKey, Recorder::Time> arrived_;
  std::map<ActKey, Seconds> act_begins_;
};

}  // namespace

/// The pages are touched here, so that no step pays for it.
Recorder::Recorder(size_t capacity) : spans_(capacity), sent_(capacity), arrived_(capacity) {
  spans_.clear();
  sent_.clear();
  arrived_.clear();
}

Timeline timeline_of(const std::vector<Recorder>& recorders, const std::vector<Rank>& ranks, Recorder::Time start) {
  return TimelineMaker(recorders, ranks, start).run();
}

}  // namespace tessera
