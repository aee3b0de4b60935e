#include "executor/recorder.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "executor/rank_program.h"
#include "executor/trace_part.h"

namespace tessera {
namespace {

/// What stands in the recorders, with names and times in place of tasks and ticks of a clock.
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

  /// One for the thread of a rank, and one for each stream of its device that did something.
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
      spans.push_back({event.kind, event.step ? event.step->op : event.task->name, event.record,
                       event.task->micro_batch, since_start(event.begin), since_start(event.end),
                       pass_text(*event.task)});
      if (event.kind == Span::Kind::kAct || event.kind == Span::Kind::kCopy)
        acts_[{rank, event.task, event.record}] = {since_start(event.begin),
                                                   track_of(rank, event.stream)};
    }
    // What surrounds comes first: an act is written down when it ends, after its kernels.
    for (Track& track : part_.tracks)
      std::stable_sort(track.spans.begin(), track.spans.end(), [](const Span& a, const Span& b) {
        return std::tuple(a.begin, b.end) < std::tuple(b.begin, a.end);
      });
    part_.lost += recorders_[rank]->lost();
  }

  /// Of several members they have the numbers of the network; of one any will do.
  int number_of(const BoundProgram& program) {
    return program.open
               ? program.open->number()
               : numbers_.emplace(&program, static_cast<int>(numbers_.size())).first->second;
  }

  TracePart::MessageId id_of(const Recorder::MessageEvent& event) {
    const Message& message = event.message;
    return {number_of(*event.program), message.kind, message.from, message.to, message.reg,
            message.iteration};
  }

  static const Task& task_of(const Recorder::MessageEvent& event, ActorId actor) {
    return event.program->graph->tasks[event.program->actors->task_of(actor)];
  }

  void add_sent(size_t rank, const Recorder::MessageEvent& event) {
    const TaskGraph& graph = *event.program->graph;
    const Register& reg = graph.registers[event.program->actors->register_of(event.message.reg)];
    const Task& sender = task_of(event, event.message.from);
    const auto act = acts_.find({rank, &sender, event.message.iteration});
    const size_t track =
        act == acts_.end() ? track_of(rank, stream_of(graph, sender)) : act->second.track;
    part_.sent.push_back({id_of(event), reg.name, track, since_start(event.time)});
  }

  void add_arrived(size_t rank, const Recorder::MessageEvent& event) {
    const Task& reader = task_of(event, event.message.to);
    const auto act = acts_.find({rank, &reader, event.message.iteration});
    Seconds used = since_start(event.time);
    if (event.message.kind == Message::Kind::kReady) {
      if (act == acts_.end()) return;
      used = act->second.begin;
    }
    const size_t track = act == acts_.end()
                             ? track_of(rank, stream_of(*event.program->graph, reader))
                             : act->second.track;
    part_.arrived.push_back({id_of(event), track, since_start(event.time), used});
  }

  const std::vector<const Recorder*>& recorders_;
  const Recorder::Time start_;
  TracePart part_;
  std::vector<std::array<size_t, kTaskStreams>> tracks_;  // by rank and stream
  std::map<const BoundProgram*, int> numbers_;
  std::map<ActKey, ActSpan> acts_;
};

}  // namespace

/// The pages are touched here, so that no step pays for it.
Recorder::Recorder(size_t capacity) : spans_(capacity), sent_(capacity), arrived_(capacity) {
  spans_.clear();
  sent_.clear();
  arrived_.clear();
}

TracePart trace_part_of(const std::vector<const Recorder*>& recorders,
                        const std::vector<Rank>& ranks, Recorder::Time start) {
  return PartMaker(recorders, ranks, start).run();
}

}  // namespace tessera
