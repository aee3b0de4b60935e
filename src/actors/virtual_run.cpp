#include "actors/virtual_run.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"

namespace tessera {
namespace {

class Clockwork {
 public:
  Clockwork(const std::vector<ActorDescription>& descriptions, int64_t records,
            const VirtualSetting& setting)
      : setting_(setting), records_(records) {
    for (const ActorDescription& description : descriptions) {
      ensure(description.id == static_cast<ActorId>(actors_.size()),
             "the id of an actor is its place in the list");
      actors_.emplace_back(description);
    }
    for (const auto& order : setting.streams)
      if (!order.empty()) streams_.push_back({order});
    if (setting.streams.empty())
      for (const ActorDescription& description : descriptions)
        streams_.push_back({{description.id}});
  }

  VirtualRun run() {
    for (begin_acts(); !events_.empty(); begin_acts()) {
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        event.stream >= 0 ? end_act(streams_[event.stream]) : deliver(event.message);
      }
    }
    check_that_all_are_done();
    for (const VirtualAct& act : run_.acts) run_.duration = std::max(run_.duration, act.end);
    run_.drained = std::all_of(actors_.begin(), actors_.end(),
                               [](const Actor& actor) { return actor.drained(); });
    return std::move(run_);
  }

 private:
  struct Stream {
    std::vector<ActorId> order;
    size_t place = 0;
    int64_t record = 0;
    bool acting = false;
  };
  /// The end of the act of a stream, or else a message that arrives.
  struct Event {
    int64_t time = 0;
    int64_t number = 0;  // of two at the same time the one that was foreseen first
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
      return actor(overwrite.producer).handed_back(overwrite.reg, id);
    });
  }

  bool is_held_by_others(const Stream& stream) const {
    return setting_.records_meet &&
           std::any_of(streams_.begin(), streams_.end(), [&](const Stream& other) {
             return other.record < stream.record;  // has not ended the record before
           });
  }

  void begin_acts() {
    for (int i = 0; i < std::ssize(streams_); ++i) {
      Stream& stream = streams_[i];
      if (stream.acting || stream.record == records_ || is_held_by_others(stream) ||
          !may_act(stream.order[stream.place]))
        continue;
      const ActorId id = stream.order[stream.place];
      const int64_t duration = setting_.duration ? setting_.duration(id) : 1;
      ensure(duration >= 0, "an act takes no negative time");
      run_.acts.push_back({now_, now_ + duration, id, actor(id).begin()});
      stream.acting = true;
      events_.push({now_ + duration, ++foreseen_, i, {}});
    }
  }

  void end_act(Stream& stream) {
    std::vector<Message> messages;
    actor(stream.order[stream.place]).finish(messages);
    stream.acting = false;
    stream.place = (stream.place + 1) % stream.order.size();
    if (stream.place == 0) ++stream.record;
    for (const Message& message : messages) {
      const int64_t arrival = now_ + (setting_.delay ? setting_.delay(message) : 0);
      run_.messages.push_back({message, now_, arrival});
      if (arrival == now_)
        deliver(message);
      else
        events_.push({arrival, ++foreseen_, -1, message});
    }
  }

  void deliver(const Message& message) { actor(message.to).receive(message); }

  void check_that_all_are_done() const {
    std::string waiting;
    for (const Stream& stream : streams_) {
      if (stream.record == records_) continue;
      const Actor& next = actors_[stream.order[stream.place]];
      waiting += "\n  actor " + std::to_string(next.description().id) + " '" +
                 next.description().name + "' " + next.waits_for();
    }
    ensure(waiting.empty(), "no actor can go on:" + waiting);
  }

  const VirtualSetting& setting_;
  const int64_t records_;
  std::vector<Actor> actors_;
  std::vector<Stream> streams_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t foreseen_ = 0;
  int64_t now_ = 0;
  VirtualRun run_;
};

}  // namespace

VirtualRun run_virtually(const std::vector<ActorDescription>& actors, int64_t records,
                         const VirtualSetting& setting) {
  return Clockwork(actors, records, setting).run();
}

std::string print_chart(const VirtualRun& run, const std::vector<ActorDescription>& actors) {
  std::string text;
  int64_t line = -1;
  for (const VirtualAct& act : run.acts) {
    if (act.start != line) text += (line < 0 ? "" : "\n") + std::to_string(act.start) + ":";
    line = act.start;
    text += " " + actors[act.actor].name + std::to_string(act.act.record);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace tessera
