#include "actors/simulated_run.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"

namespace tessera {
namespace {

class ActorSimulator {
 public:
  ActorSimulator(const std::vector<ActorDescription>& descriptions, int64_t iterations,
                 const SimulatedSetting& setting)
      : setting_(setting), iterations_(iterations) {
    for (const ActorDescription& description : descriptions) {
      ensure(description.id == std::ssize(actors_), "the id of an actor is its index in the list");
      actors_.emplace_back(description);
    }
    for (const auto& order : setting.streams)
      if (!order.empty()) add_stream(order);
    if (setting.streams.empty())
      for (const ActorDescription& description : descriptions) add_stream({description.id});
  }

  SimulatedRun run() {
    for (begin_acts(); !events_.empty(); begin_acts()) {
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        event.stream >= 0 ? end_act(streams_[event.stream]) : deliver(event.message);
      }
    }
    check_that_all_are_done();
    for (const SimulatedAct& act : run_.acts) run_.duration = std::max(run_.duration, act.end);
    run_.is_quiescent = std::all_of(actors_.begin(), actors_.end(),
                                    [](const Actor& actor) { return actor.is_quiescent(); });
    return std::move(run_);
  }

 private:
  struct Stream {
    std::vector<ActorId> order;
    int64_t acts = 0;  // in an iteration
    size_t next = 0;   // index in `order`: the actor that acts, or acts next
    int64_t iteration = 0;
    int64_t ended = 0;  // acts
    bool acting = false;
  };
  /// The end of an act of a stream, or the arrival of a message.
  struct Event {
    int64_t time = 0;
    int64_t number = 0;  // of two events at the same time, the one that was scheduled first
    int stream = -1;
    Message message;
    bool operator>(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };

  Actor& actor(ActorId id) { return actors_.at(id); }

  bool may_act(ActorId id) {
    if (!actor(id).ready()) return false;
    if (setting_.overwrites.empty()) return true;
    const std::vector<Overwrite>& list = setting_.overwrites[id];
    return std::all_of(list.begin(), list.end(), [&](const Overwrite& overwrite) {
      return actor(overwrite.producer).is_released(overwrite.reg, id);
    });
  }

  int64_t acts_per_iteration(ActorId id) const {
    if (setting_.is_ordered || setting_.acts_per_iteration.empty()) return 1;
    return setting_.acts_per_iteration.at(id);
  }
  void add_stream(const std::vector<ActorId>& order) {
    int64_t acts = 0;
    for (ActorId id : order) acts += acts_per_iteration(id);
    streams_.push_back({order, acts});
  }

  /// May the actor of an unordered stream begin an act of this iteration, or without barrier of a
  /// later one?
  bool has_acts_left(const Stream& stream, ActorId id) {
    const int64_t end = setting_.barrier_between_iterations ? stream.iteration + 1 : iterations_;
    return actor(id).iterations() < end * acts_per_iteration(id);
  }

  /// Selects the next actor of a stream.  returns  whether it may act
  bool select(Stream& stream) {
    if (setting_.is_ordered) return may_act(stream.order[stream.next]);
    for (size_t i = 0; i < stream.order.size(); ++i) {
      if (!has_acts_left(stream, stream.order[i]) || !may_act(stream.order[i])) continue;
      stream.next = i;
      return true;
    }
    return false;
  }

  bool waits_at_barrier(const Stream& stream) const {
    return setting_.barrier_between_iterations &&
           std::any_of(streams_.begin(), streams_.end(), [&](const Stream& other) {
             return other.iteration < stream.iteration;  // has not ended the previous iteration
           });
  }

  void begin_acts() {
    for (int i = 0; i < std::ssize(streams_); ++i) {
      Stream& stream = streams_[i];
      if (stream.acting || stream.iteration == iterations_ || waits_at_barrier(stream) ||
          !select(stream))
        continue;
      const ActorId id = stream.order[stream.next];
      const int64_t duration = setting_.duration ? setting_.duration(id) : 1;
      ensure(duration >= 0, "an act takes no negative time");
      run_.acts.push_back({now_, now_ + duration, id, actor(id).begin()});
      stream.acting = true;
      events_.push({now_ + duration, ++scheduled_, i, {}});
    }
  }

  void end_act(Stream& stream) {
    std::vector<Message> messages;
    actor(stream.order[stream.next]).finish(messages);
    stream.acting = false;
    stream.next = (stream.next + 1) % stream.order.size();
    if (++stream.ended % stream.acts == 0) ++stream.iteration;
    for (const Message& message : messages) {
      const int64_t arrival = now_ + (setting_.delay ? setting_.delay(message) : 0);
      run_.messages.push_back({message, now_, arrival});
      if (arrival == now_)
        deliver(message);
      else
        events_.push({arrival, ++scheduled_, -1, message});
    }
  }

  void deliver(const Message& message) { actor(message.to).receive(message); }

  std::string waiting_text(ActorId id) {
    return "\n  actor " + std::to_string(id) + " '" + actor(id).description().name + "' " +
           actor(id).waits_for();
  }

  void check_that_all_are_done() {
    std::string waiting;
    for (const Stream& stream : streams_) {
      if (stream.iteration == iterations_) continue;
      if (setting_.is_ordered) {
        waiting += waiting_text(stream.order[stream.next]);
        continue;
      }
      for (ActorId id : stream.order)
        if (has_acts_left(stream, id)) waiting += waiting_text(id);
    }
    ensure(waiting.empty(), "no actor can act:" + waiting);
  }

  const SimulatedSetting& setting_;
  const int64_t iterations_;
  std::vector<Actor> actors_;
  std::vector<Stream> streams_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t scheduled_ = 0;
  int64_t now_ = 0;
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate_actors(const std::vector<ActorDescription>& actors, int64_t iterations,
                             const SimulatedSetting& setting) {
  return ActorSimulator(actors, iterations, setting).run();
}

std::string print_chart(const SimulatedRun& run, const std::vector<ActorDescription>& actors) {
  std::string text;
  int64_t line = -1;
  for (const SimulatedAct& act : run.acts) {
    if (act.start != line) text += (line < 0 ? "" : "\n") + std::to_string(act.start) + ":";
    line = act.start;
    text += " " + actors[act.actor].name + std::to_string(act.act.iteration);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace tessera
