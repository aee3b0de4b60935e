#include "actor_times.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "simulator/clock/simulate.h"
#include "task_graph/actors/simulated_run.h"
#include "task_graph/actors/task_actors.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera::conformance {
namespace {

constexpr int kSimulatedSteps = 2;

int64_t duration_of(Rank rank, TaskId task) {
  return (task.value() * 7 + rank * 3) % 11 * 100;
}

std::string act_text(Rank rank, const std::string& name, int64_t begin, int64_t end) {
  return "rank " + std::to_string(rank) + " " + name + " " + std::to_string(begin) + " " +
         std::to_string(end);
}

int64_t nanoseconds(Seconds time) {
  return std::llround(time.value() * 1e9);
}

}  // namespace

std::vector<std::string> simulated_acts(const std::shared_ptr<const TaskGraph>& tasks) {
  const auto duration = [](Rank rank, TaskId task) {
    return Seconds(static_cast<double>(duration_of(rank, task)) * 1e-9);
  };
  const Simulation simulation = simulate(tasks, duration, {.steps = kSimulatedSteps});
  std::vector<std::string> list;
  for (const Track& track : simulation.timeline.tracks)
    for (const Span& span : track.spans)
      if (span.kind != Span::Kind::kWait)
        list.push_back(
            act_text(track.rank, span.name, nanoseconds(span.begin), nanoseconds(span.end)));
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<std::string> acts_of_actors(const std::shared_ptr<const TaskGraph>& tasks) {
  const TaskActors actors = find_actors(tasks, ranks(*tasks));
  const auto rank_of = [&](ActorId actor) { return actors.ranks()[actors.rank_index_of(actor)]; };
  std::vector<ActorDescription> descriptions;
  SimulatedSetting setting{.barrier_between_iterations = true};
  setting.duration = [&](ActorId actor) {
    return duration_of(rank_of(actor), actors.task_of(actor));
  };
  for (int rank = 0; rank < actors.rank_count(); ++rank) {
    for (const TaskId task : tasks->tasks.indices()) {
      descriptions.push_back(actors.describe(rank, task));
      setting.overwrites.push_back(actors.overwrites(rank, task));
    }
    std::map<TaskStream, std::vector<ActorId>> streams;
    for (const TaskId task : order_of(actors, rank))
      streams[stream_of(*tasks, tasks->tasks[task])].push_back(actors.actor_id(rank, task));
    for (const auto& [stream, order] : streams) setting.streams.push_back(order);
  }
  std::vector<std::string> list;
  for (const SimulatedAct& act : simulate_actors(descriptions, kSimulatedSteps, setting).acts)
    list.push_back(act_text(rank_of(act.actor), tasks->tasks[actors.task_of(act.actor)].name,
                            act.start, act.end));
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace tessera::conformance
