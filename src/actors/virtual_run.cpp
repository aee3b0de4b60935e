#include "actors/virtual_run.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<Actor> make_actors(const std::vector<ActorDescription>& descriptions) {
  std::vector<Actor> actors;
  for (const ActorDescription& description : descriptions) {
    ensure(description.id == static_cast<ActorId>(actors.size()), "the id of an actor is its place in the list");
    actors.emplace_back(description);
  }
  return actors;
}

void end_acts(std::vector<Actor>& actors, std::vector<ActorId>& acting) {
  std::vector<Message> messages;
  for (ActorId id : acting) actors[static_cast<size_t>(id)].finish(messages);
  acting.clear();
  for (const Message& message : messages) actors.at(static_cast<size_t>(message.to)).receive(message);
}

void begin_acts(std::vector<Actor>& actors, int64_t records, int64_t time, std::vector<ActorId>& acting, VirtualRun& run) {
  for (Actor& actor : actors) {
    if (!actor.ready() || actor.records() == records) continue;
    run.acts.push_back({time, actor.description().id, actor.begin()});
    acting.push_back(actor.description().id);
  }
}

void check_that_all_are_done(const std::vector<Actor>& actors, int64_t records) {
  std::string waiting;
  for (const Actor& actor : actors) {
    const ActorDescription& description = actor.description();
    if (actor.records() == records) continue;
    waiting += "\n  actor " + std::to_string(description.id) + " '" + description.name + "' " + actor.waits_for();
  }
  ensure(waiting.empty(), "no actor can go on:" + waiting);
}

}  // namespace

VirtualRun run_virtually(const std::vector<ActorDescription>& descriptions, int64_t records) {
  std::vector<Actor> actors = make_actors(descriptions);
  std::vector<ActorId> acting;
  VirtualRun run;
  for (int64_t time = 0;; ++time) {
    end_acts(actors, acting);
    begin_acts(actors, records, time, acting, run);
    run.duration = time;
    if (acting.empty()) break;
  }
  check_that_all_are_done(actors, records);
  run.drained = std::all_of(actors.begin(), actors.end(), [](const Actor& actor) { return actor.drained(); });
  return run;
}

std::string print_chart(const VirtualRun& run, const std::vector<ActorDescription>& actors) {
  std::string text;
  int64_t line = -1;
  for (const VirtualAct& act : run.acts) {
    if (act.start != line) text += (line < 0 ? "" : "\n") + std::to_string(act.start) + ":";
    line = act.start;
    text += " " + actors[static_cast<size_t>(act.actor)].name + std::to_string(act.act.record);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace tessera
