#include "task_graph/actors/simulated_run.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

int64_t scaled(int64_t amount, double factor) {
  return factor == 1 ? amount : std::llround(static_cast<double>(amount) * factor);
}

class ActorSimulator {
 public:
  ActorSimulator(std::vector<ActorDescription> descriptions, int64_t iterations,
                 const SimulatedSetting& setting)
      : setting_(setting), iterations_(iterations), rates_(setting.resources) {
    actors_.reserve(descriptions.size());
    for (ActorDescription& description : descriptions) {
      ensure(description.id == std::ssize(actors_), "the id of an actor is its index in the list");
      actors_.emplace_back(std::move(description));
    }
    descriptions = {};
    stream_of_.resize(actors_.size(), -1);
    held_anti_dependence_.resize(actors_.size());
    for (const auto& order : setting.streams)
      if (!order.empty()) add_stream(order);
    if (setting.streams.empty())
      for (ActorId id = 0; id < std::ssize(actors_); ++id) add_stream({id});
    touch_all();
    int64_t acts = 0;
    for (const Stream& stream : streams_) acts += stream.acts;
    run_.acts.reserve(acts * iterations);
  }

  SimulatedRun run() {
    while (true) {
      begin_acts();
      if (events_.empty() || events_.top().time > now_) rates_.update(now_);
      const int64_t next =
          std::min(events_.empty() ? FairRates::kNever : events_.top().time, rates_.next_end());
      if (next == FairRates::kNever) break;
      now_ = next;
      handle_events();
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
    bool is_touched = false;
    size_t act = 0;         // of `acting`: its index in run_.acts
    double slowdown = 1;    // of `acting`
    int64_t in_flight = 0;  // flows of the act
  };
  /// The end of an act of a stream or of its fixed time, or the arrival of a message.
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

  bool may_act(ActorId id) { return actor(id).ready() && may_overwrite(id); }

  /// The search begins where the last one failed, so that an actor that overwrites many registers
  /// is not checked as a whole whenever one of them is released. It waits for that one alone.
  bool may_overwrite(ActorId id) {
    if (setting_.overwrites.empty()) return true;
    const std::vector<AntiDependence>& list = setting_.overwrites[id];
    HeldAntiDependence& held = held_anti_dependence_[id];
    for (size_t i = 0; i < list.size(); ++i) {
      const AntiDependence& overwrite = list[held.index];
      if (!actor(overwrite.producer).is_released(overwrite.reg, id)) {
        if (!std::exchange(held.is_watched, true)) watchers_[overwrite.reg].push_back(id);
        return false;
      }
      held.index = held.index + 1 == std::ssize(list) ? 0 : held.index + 1;
    }
    return true;
  }

  int64_t acts_per_iteration(ActorId id) const {
    if (setting_.is_ordered || setting_.acts_per_iteration.empty()) return 1;
    return setting_.acts_per_iteration.at(id);
  }
  void add_stream(const std::vector<ActorId>& order) {
    int64_t acts = 0;
    for (ActorId id : order) {
      acts += acts_per_iteration(id);
      const int stream = static_cast<int>(streams_.size());
      ensure(stream_of_.at(id) < 0 || stream_of_[id] == stream, "an actor is in one stream");
      stream_of_[id] = stream;
    }
    streams_.push_back({.order = order, .acts = acts});
  }

  // ---- the streams whose next act may have become possible ----

  void touch(int stream) {
    if (std::exchange(streams_[stream].is_touched, true)) return;
    touched_.push_back(stream);
  }
  void touch_actor(ActorId id) {
    if (stream_of_[id] >= 0) touch(stream_of_[id]);
  }
  void touch_all() {
    for (int stream = 0; stream < std::ssize(streams_); ++stream) touch(stream);
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
    return setting_.barrier_between_iterations && stream.iteration > complete_iterations_;
  }

  void begin_acts() {
    std::vector<int> touched = std::exchange(touched_, {});
    std::sort(touched.begin(), touched.end());
    for (int i : touched) {
      Stream& stream = streams_[i];
      stream.is_touched = false;
      if (stream.acting || stream.iteration == iterations_ || waits_at_barrier(stream) ||
          !select(stream))
        continue;
      begin_act(i);
    }
  }

  void begin_act(int index) {
    Stream& stream = streams_[index];
    const ActorId id = stream.order[stream.next];
    const Act& act = actor(id).begin();
    stream.act = run_.acts.size();
    stream.acting = true;
    stream.slowdown = setting_.slowdown ? setting_.slowdown(id, act.iteration) : 1;
    const int64_t duration = setting_.demand ? scaled(setting_.demand(id).fixed, stream.slowdown)
                             : setting_.duration ? setting_.duration(id)
                                                 : 1;
    ensure(duration >= 0, "an act takes no negative time");
    run_.acts.push_back({now_, now_ + duration, id, {}});
    if (setting_.records_messages)
      run_.acts.back().act = act;
    else
      run_.acts.back().act.iteration = act.iteration;
    events_.push({now_ + duration, ++scheduled_, index, {}});
  }

  // ---- what happens at a time ----

  void handle_events() {
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      event.stream >= 0 ? begin_flows(event.stream) : deliver(event.message);
    }
    for (FlowId flow : rates_.end_flows(now_)) {
      const int stream = stream_of_flow_[flow];
      if (--streams_[stream].in_flight == 0) end_act(stream);
    }
  }

  /// Begins the flows of an act whose fixed time has passed, or ends an act without flows.
  void begin_flows(int index) {
    Stream& stream = streams_[index];
    if (setting_.demand) {
      for (const Flow& flow : setting_.demand(stream.order[stream.next]).flows) {
        const bool is_work =
            std::any_of(flow.uses.begin(), flow.uses.end(), [&](const ResourceUse& use) {
              return setting_.resources.at(use.resource).kind == Resource::Kind::kCores;
            });
        const int64_t amount = is_work ? scaled(flow.amount, stream.slowdown) : flow.amount;
        if (amount == 0) continue;
        const FlowId id = rates_.begin(flow, amount, now_);
        if (!stream_of_flow_.contains(id)) stream_of_flow_.resize(id.value() + 1);
        stream_of_flow_[id] = index;
        ++stream.in_flight;
      }
    }
    if (stream.in_flight == 0) end_act(index);
  }

  void end_act(int index) {
    Stream& stream = streams_[index];
    const ActorId id = stream.order[stream.next];
    messages_.clear();
    actor(id).finish(messages_);
    run_.acts[stream.act].end = now_;
    stream.acting = false;
    stream.next = (stream.next + 1) % stream.order.size();
    if (++stream.ended % stream.acts == 0) end_iteration(stream);
    touch(index);
    touch_actor(id);
    for (const Message& message : messages_) {
      const int64_t arrival = now_ + (setting_.delay ? setting_.delay(message) : 0);
      if (setting_.records_messages) run_.messages.push_back({message, now_, arrival});
      if (arrival == now_)
        deliver(message);
      else
        events_.push({arrival, ++scheduled_, -1, message});
    }
  }

  void end_iteration(Stream& stream) {
    ++stream.iteration;
    if (!setting_.barrier_between_iterations || ++ended_iterations_ < std::ssize(streams_)) return;
    ended_iterations_ = 0;
    ++complete_iterations_;
    touch_all();
  }

  void deliver(const Message& message) {
    actor(message.to).receive(message);
    touch_actor(message.to);
    if (message.kind == Message::Kind::kReady || watchers_.empty()) return;
    const auto found = watchers_.find(message.reg);
    if (found == watchers_.end()) return;
    for (ActorId watcher : found->second) {
      held_anti_dependence_[watcher].is_watched = false;
      touch_actor(watcher);
    }
    watchers_.erase(found);
  }

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

  /// Of the overwrites of an actor, the first one to check.
  struct HeldAntiDependence {
    int index = 0;
    bool is_watched = false;  // the actor is among the watchers of that register
  };

  const SimulatedSetting& setting_;
  const int64_t iterations_;
  std::vector<Actor> actors_;
  std::vector<int> stream_of_;                            // by actor; -1: none
  std::vector<HeldAntiDependence> held_anti_dependence_;  // by actor
  /// By register, the actors whose overwrite of it was not possible when it was checked last.
  std::unordered_map<RegisterId, std::vector<ActorId>> watchers_;
  std::vector<Stream> streams_;
  std::vector<int> touched_;         // streams to look at
  int64_t ended_iterations_ = 0;     // streams that have ended the iteration that is not complete
  int64_t complete_iterations_ = 0;  // with a barrier: iterations that all streams have ended
  FairRates rates_;
  IndexedVector<FlowId, int> stream_of_flow_;
  std::vector<Message> messages_;  // of the act that ends
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t scheduled_ = 0;
  int64_t now_ = 0;
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate_actors(std::vector<ActorDescription> actors, int64_t iterations,
                             const SimulatedSetting& setting) {
  return ActorSimulator(std::move(actors), iterations, setting).run();
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
