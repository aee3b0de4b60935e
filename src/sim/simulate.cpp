#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "actors/simulated_run.h"
#include "base/error.h"

namespace tessera {
namespace {

/// A time in whole nanoseconds, so that sums are exact.
int64_t nanoseconds(Seconds time) {
  return std::llround(time.value() * 1e9);
}
Seconds seconds(int64_t count) {
  return Seconds(static_cast<double>(count) / 1e9);
}

class Simulator {
 public:
  Simulator(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
            const SimulateOptions& options)
      : options_(options), actors_(find_actors(graph, ranks(*graph))) {
    for (int rank = 0; rank < actors_.rank_count(); ++rank) {
      for (TaskId task : graph->tasks.indices()) {
        descriptions_.push_back(actors_.describe(rank, task));
        setting_.overwrites.push_back(actors_.overwrites(rank, task));
      }
      add_streams(rank);
      if (options.prefetch_exchanges) bind_to_issue_points(rank);
    }
    setting_.barrier_between_iterations = options.barrier_between_steps;
    setting_.duration = [this, &time](ActorId actor) {
      return nanoseconds(time(rank_of(actor), actors_.task_of(actor)));
    };
    setting_.delay = [this](const Message& message) {
      return actors_.rank_index_of(message.from) == actors_.rank_index_of(message.to)
                 ? 0
                 : nanoseconds(options_.message);
    };
  }

  Simulation run() {
    ensure(options_.steps >= 1, "a simulation has a step");
    run_ = simulate_actors(descriptions_, options_.steps, setting_);
    for (const SimulatedAct& act : run_.acts) add_act(act);
    for (const SimulatedMessage& message : run_.messages) add_message(message);
    simulation_.step = seconds(end_of(options_.steps - 1) - end_of(options_.steps - 2));
    for (int rank = 0; rank < actors_.rank_count(); ++rank)
      simulation_.ranks.push_back(times_of(rank));
    return std::move(simulation_);
  }

 private:
  Rank rank_of(ActorId actor) const { return actors_.ranks()[actors_.rank_index_of(actor)]; }
  const Task& task_of(ActorId actor) const { return actors_.graph().tasks[actors_.task_of(actor)]; }

  /// Adds the thread of the rank, and the streams of its device that have work.
  void add_streams(int rank) {
    std::array<std::vector<ActorId>, kTaskStreams> streams;
    for (TaskId task : actors_.order_of(rank))
      streams[stream_index(task)].push_back(actors_.actor_id(rank, task));
    auto& tracks = tracks_.emplace_back();
    for (size_t i = 0; i < streams.size(); ++i) {
      if (i > 0 && streams[i].empty()) continue;
      tracks[i] = simulation_.timeline.tracks.size();
      simulation_.timeline.tracks.push_back(
          {actors_.ranks()[rank], std::string(to_text(static_cast<TaskStream>(i))), {}});
      setting_.streams.push_back(std::move(streams[i]));
    }
  }

  TaskStream stream_of_task(TaskId id) const {
    const Task& task = actors_.graph().tasks[id];
    return options_.prefetch_exchanges && !task.issue_after.is_none()
               ? TaskStream::kPrefetch
               : stream_of(actors_.graph(), task);
  }
  size_t stream_index(TaskId id) const { return static_cast<size_t>(stream_of_task(id)); }

  /// A prefetched exchange waits for the task at its issue point, and the tasks after its turn wait
  /// for the exchange. Both dependences are registers that only the simulated actors have.
  void bind_to_issue_points(int rank) {
    const std::vector<TaskId> order = actors_.order_of(rank);
    const auto on_host = [&](TaskId task) { return stream_of_task(task) == TaskStream::kHost; };
    IndexedVector<TaskId, int> position(actors_.graph().tasks.size());
    for (int i = 0; i < std::ssize(actors_.graph().order); ++i)
      position[actors_.graph().order[i]] = i;
    for (size_t i = 0; i < order.size(); ++i) {
      if (stream_of_task(order[i]) != TaskStream::kPrefetch) continue;
      const int from = position[actors_.graph().tasks[order[i]].issue_after];
      TaskId before;  // the last one of this thread up to the issue point
      for (size_t k = 0; k < i && position[order[k]] <= from; ++k)
        if (on_host(order[k])) before = order[k];
      if (!before.is_none())
        add_edge(actors_.actor_id(rank, before), actors_.actor_id(rank, order[i]));
      const auto next = std::find_if(order.begin() + i, order.end(), on_host);
      if (next != order.end())
        add_edge(actors_.actor_id(rank, order[i]), actors_.actor_id(rank, *next));
    }
  }
  void add_edge(ActorId from, ActorId to) {
    const RegisterId reg = actors_.rank_count() * actors_.graph().registers.size() + edges_++;
    descriptions_[from].outputs.push_back({reg, 1, {to}});
    descriptions_[to].inputs.push_back({reg, from});
  }
  size_t track_of(ActorId actor) const {
    return tracks_[actors_.rank_index_of(actor)][stream_index(actors_.task_of(actor))];
  }

  void add_act(const SimulatedAct& act) {
    const Task& task = task_of(act.actor);
    std::vector<Span>& spans = simulation_.timeline.tracks[track_of(act.actor)].spans;
    const Seconds free = spans.empty() ? Seconds(0) : spans.back().end;
    const bool steps_met = options_.barrier_between_steps &&
                           (spans.empty() || spans.back().iteration != act.act.iteration);
    if (free < seconds(act.start) && !steps_met)
      spans.push_back({Span::Kind::kWait, task.name, act.act.iteration, task.micro_batch, free,
                       seconds(act.start), pass_text(task)});
    spans.push_back({task.kind == Task::Kind::kCompute ? Span::Kind::kAct : Span::Kind::kCopy,
                     task.name, act.act.iteration, task.micro_batch, seconds(act.start),
                     seconds(act.end), pass_text(task)});
    begins_[{act.actor, act.act.iteration}] = act.start;
  }

  void add_message(const SimulatedMessage& sent) {
    const Message& message = sent.message;
    const int from = actors_.rank_index_of(message.from), to = actors_.rank_index_of(message.to);
    if (from == to) return;
    const Register& reg = actors_.graph().registers[actors_.register_of(message.reg)];
    const bool is_ready = message.kind == Message::Kind::kReady;
    simulation_.timeline.messages.push_back(
        {is_ready ? TimedMessage::Kind::kReady : TimedMessage::Kind::kReleased, reg.name,
         track_of(message.from), track_of(message.to), seconds(sent.sent), seconds(sent.arrived),
         seconds(is_ready ? begins_.at({message.to, message.iteration}) : sent.arrived)});
  }

  /// The end of the last act of a step; 0 before the first step.
  int64_t end_of(int64_t step) const {
    int64_t end = 0;
    for (const SimulatedAct& act : run_.acts)
      if (act.act.iteration == step) end = std::max(end, act.end);
    return end;
  }

  RankTimes times_of(int rank) const {
    RankTimes times{actors_.ranks()[rank], {}, {}, {}, {}};
    std::vector<SimulatedAct> kernels;
    for (const SimulatedAct& act : run_.acts) {
      if (act.act.iteration != options_.steps - 1 || actors_.rank_index_of(act.actor) != rank)
        continue;
      const Task::Kind kind = task_of(act.actor).kind;
      if (kind == Task::Kind::kExchange || kind == Task::Kind::kCopy)
        times.exchange += seconds(act.end - act.start);
      if (kind != Task::Kind::kCompute) continue;
      times.compute += seconds(act.end - act.start);
      kernels.push_back(act);
    }
    add_span(kernels, times);
    return times;
  }

  ///   kernels  the kernels of one rank in one step, ordered by begin
  void add_span(const std::vector<SimulatedAct>& kernels, RankTimes& times) const {
    const auto is_of_micro_batch = [&](const SimulatedAct& act) {
      return task_of(act.actor).micro_batch >= 0;
    };
    const bool any = std::any_of(kernels.begin(), kernels.end(), is_of_micro_batch);
    const auto bounds = [&](const SimulatedAct& act) { return !any || is_of_micro_batch(act); };
    const auto first = std::find_if(kernels.begin(), kernels.end(), bounds);
    if (first == kernels.end()) return;
    const auto last = std::find_if(kernels.rbegin(), kernels.rend(), bounds);
    int64_t idle = last->end - first->start;
    times.span = seconds(idle);
    for (auto act = first; act != last.base(); ++act) idle -= act->end - act->start;
    times.idle_in_span = seconds(idle);
  }

  const SimulateOptions& options_;
  const TaskActors actors_;
  std::vector<std::array<size_t, kTaskStreams>> tracks_;  // by rank index and stream
  std::vector<ActorDescription> descriptions_;
  int edges_ = 0;  // of bind_to_issue_points
  SimulatedSetting setting_;
  SimulatedRun run_;
  std::map<std::pair<ActorId, int64_t>, int64_t> begins_;  // of acts, by iteration
  Simulation simulation_;
};

}  // namespace

double Simulation::bubble() const {
  if (step.value() <= 0) return 0;
  double work = 0;
  int count = 0;
  for (const RankTimes& times : ranks) {
    work += times.compute.value();
    ++count;
  }
  return 1 - work / (step.value() * count);
}

Simulation simulate(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
                    const SimulateOptions& options) {
  return Simulator(std::move(graph), time, options).run();
}

}  // namespace tessera
