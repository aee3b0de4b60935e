#include "simulator/clock/simulate.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "simulator/clock/internal/critical_path.h"
#include "simulator/clock/internal/live_ranges.h"
#include "simulator/clock/internal/simulated_ranks.h"
#include "task_graph/actors/simulated_run.h"

namespace tessera {
namespace {

/// The times of a rank from its acts in one step.
class TimesOfRank {
 public:
  ///   acts  by start
  TimesOfRank(const TaskGraph& graph, const std::vector<TimedAct>& acts) : graph_(graph) {
    for (const TimedAct& act : acts) {
      const Task::Kind kind = graph.tasks[act.task].kind;
      if (kind == Task::Kind::kCompute) kernels_.push_back(&act);
      if (kind == Task::Kind::kExchange || kind == Task::Kind::kCopy) transfers_.push_back(&act);
    }
  }

  RankTimes times() const {
    RankTimes times;
    times.compute = seconds(sum(kernels_));
    times.exchange = seconds(sum(transfers_));
    times.exposed = seconds(without(covered(transfers_), covered(kernels_)));
    add_span(times);
    return times;
  }

 private:
  using Acts = std::vector<const TimedAct*>;
  using Intervals = std::vector<std::pair<int64_t, int64_t>>;

  static int64_t sum(const Acts& acts) {
    int64_t time = 0;
    for (const TimedAct* act : acts) time += act->end - act->start;
    return time;
  }
  /// The union of the intervals of acts, ascending.
  static Intervals covered(const Acts& acts) {
    Intervals list;
    for (const TimedAct* act : acts) {
      if (list.empty() || act->start > list.back().second)
        list.emplace_back(act->start, act->end);
      else
        list.back().second = std::max(list.back().second, act->end);
    }
    return list;
  }
  /// The length of `list` without that of its intersection with `other`.
  static int64_t without(const Intervals& list, const Intervals& other) {
    int64_t length = 0;
    auto first = other.begin();
    for (const auto& [start, end] : list) {
      length += end - start;
      while (first != other.end() && first->second <= start) ++first;
      for (auto next = first; next != other.end() && next->first < end; ++next)
        length -= std::min(end, next->second) - std::max(start, next->first);
    }
    return length;
  }

  void add_span(RankTimes& times) const {
    const auto is_of_micro_batch = [&](const TimedAct* act) {
      return graph_.tasks[act->task].micro_batch >= 0;
    };
    const bool any = std::ranges::any_of(kernels_, is_of_micro_batch);
    const auto bounds = [&](const TimedAct* act) { return !any || is_of_micro_batch(act); };
    const auto first = std::ranges::find_if(kernels_, bounds);
    if (first == kernels_.end()) return;
    int64_t end = 0;
    for (const TimedAct* act : kernels_)
      if (bounds(act)) end = std::max(end, act->end);
    int64_t idle = end - (*first)->start;
    times.span = seconds(idle);
    for (auto act = first; act != kernels_.end() && (*act)->start < end; ++act)
      idle -= (*act)->end - (*act)->start;
    times.idle_in_span = seconds(idle);
  }

  const TaskGraph& graph_;
  Acts kernels_, transfers_;  // by start
};

/// Makes the result of a run.
class Report {
 public:
  ///   steps  of the run
  Report(const SimulatedRanks& ranks, SimulatedRun run, const SimulateOptions& options,
         int64_t steps)
      : ranks_(ranks),
        actors_(ranks.actors()),
        run_(std::move(run)),
        options_(options),
        steps_(steps) {}

  Simulation make() {
    if (options_.has_timeline) add_timeline();
    simulation_.acts = std::ssize(run_.acts);
    const int64_t end = end_of(steps_ - 1), begin = end_of(steps_ - 2);
    simulation_.step = seconds(end - begin);
    simulation_.end = seconds(end);
    add_last_step(begin);
    if (options_.has_path_and_memory) {
      simulation_.critical_path = critical_path(ranks_, run_, begin);
      simulation_.live = live_ranges(ranks_, run_, begin);
    }
    return std::move(simulation_);
  }

 private:
  void add_last_step(int64_t begin) {
    std::vector<std::vector<TimedAct>> acts(ranks_.classes().count());
    for (const SimulatedAct& act : run_.acts)
      if (act.act.iteration == steps_ - 1)
        acts[actors_.class_of(act.actor)].push_back(
            {actors_.task_of(act.actor), act.start - begin, act.end - begin});
    const auto place = [](const TimedAct& act) { return std::tuple(act.start, act.end, act.task); };
    std::vector<RankTimes> times;
    for (int rank_class = 0; rank_class < std::ssize(acts); ++rank_class) {
      std::ranges::sort(acts[rank_class], {}, place);
      times.push_back(TimesOfRank(ranks_.graph(), acts[rank_class]).times());
      simulation_.last_step.push_back(
          {ranks_.representative(rank_class), std::move(acts[rank_class])});
    }
    for (size_t i = 0; i < ranks_.ranks().size(); ++i) {
      const int rank_class = ranks_.classes().class_of[i];
      RankTimes& of_rank = simulation_.ranks.emplace_back(times[rank_class]);
      of_rank.rank = ranks_.ranks()[i];
      of_rank.representative = ranks_.representative(rank_class);
    }
  }

  void add_timeline() {
    for (int rank_class = 0; rank_class < ranks_.classes().count(); ++rank_class)
      add_tracks(rank_class);
    begins_.resize(actors_.count() * steps_);
    for (const SimulatedAct& act : run_.acts) add_act(act);
    for (const SimulatedMessage& message : run_.messages) add_message(message);
  }

  void add_tracks(int rank_class) {
    auto& tracks = tracks_.emplace_back();
    for (size_t i = 0; i < tracks.size(); ++i) {
      const auto stream = static_cast<TaskStream>(i);
      if (!ranks_.programs().has_stream(rank_class, stream)) continue;
      tracks[i] = simulation_.timeline.tracks.size();
      simulation_.timeline.tracks.push_back(
          {ranks_.representative(rank_class), std::string(to_text(stream)), {}});
    }
  }
  size_t track_of(ActorId actor) const {
    const auto stream = static_cast<size_t>(ranks_.stream_of_task(actors_.task_of(actor)));
    return tracks_[actors_.class_of(actor)][stream];
  }
  int64_t& begin_of(ActorId actor, int64_t step) { return begins_[actor * steps_ + step]; }

  void add_act(const SimulatedAct& act) {
    const Task& task = ranks_.task_of(act.actor);
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
    begin_of(act.actor, act.act.iteration) = act.start;
  }

  void add_message(const SimulatedMessage& sent) {
    const Message& message = sent.message;
    if (actors_.class_of(message.from) == actors_.class_of(message.to)) return;
    const Register& reg = ranks_.graph().registers[actors_.register_of(message.reg)];
    const bool is_ready = message.kind == Message::Kind::kReady;
    simulation_.timeline.messages.push_back(
        {is_ready ? TimedMessage::Kind::kReady : TimedMessage::Kind::kReleased, reg.name,
         track_of(message.from), track_of(message.to), seconds(sent.sent), seconds(sent.arrived),
         seconds(is_ready ? begin_of(message.to, message.iteration) : sent.arrived)});
  }

  /// The end of the last act of a step; 0 before the first step.
  int64_t end_of(int64_t step) const {
    int64_t end = 0;
    for (const SimulatedAct& act : run_.acts)
      if (act.act.iteration == step) end = std::max(end, act.end);
    return end;
  }

  const SimulatedRanks& ranks_;
  const ClassActors& actors_;
  const SimulatedRun run_;
  const SimulateOptions& options_;
  const int64_t steps_;
  std::vector<std::array<size_t, kTaskStreams>> tracks_;  // by class and stream
  std::vector<int64_t> begins_;                           // by actor and step
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

Simulation simulate(std::shared_ptr<const TaskGraph> graph, const Demands& demands,
                    const SimulateOptions& options) {
  ensure(options.steps >= 1, "a simulation has a step");
  SimulatedRanks ranks(std::move(graph), demands, options);
  const int64_t steps = ranks.has_identical_steps() ? 1 : options.steps;
  return Report(ranks, ranks.run(steps), options, steps).make();
}

Simulation simulate(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
                    const SimulateOptions& options) {
  const Demands demands{.demand = [&](Rank rank, TaskId task) {
    return ActDemand{nanoseconds(time(rank, task)), {}};
  }};
  return simulate(std::move(graph), demands, options);
}

}  // namespace tessera
