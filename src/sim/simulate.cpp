#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "actors/simulated_run.h"
#include "base/error.h"
#include "sim/critical_path.h"
#include "sim/live_ranges.h"
#include "sim/simulated_ranks.h"

namespace tessera {
namespace {

/// Makes the result of a run.
class Report {
 public:
  Report(const SimulatedRanks& ranks, SimulatedRun run, const SimulateOptions& options)
      : ranks_(ranks), actors_(ranks.actors()), run_(std::move(run)), options_(options) {}

  Simulation make() {
    if (options_.has_timeline) add_timeline();
    simulation_.acts = std::ssize(run_.acts);
    const int64_t end = end_of(options_.steps - 1), begin = end_of(options_.steps - 2);
    simulation_.step = seconds(end - begin);
    simulation_.end = seconds(end);
    add_times();
    if (options_.has_path_and_memory) {
      simulation_.critical_path = critical_path(ranks_, run_, begin);
      simulation_.live = live_ranges(ranks_, run_, begin);
    }
    return std::move(simulation_);
  }

 private:
  void add_timeline() {
    for (int rank_class = 0; rank_class < ranks_.classes().count(); ++rank_class)
      add_tracks(rank_class);
    begins_.resize(actors_.count() * options_.steps);
    for (const SimulatedAct& act : run_.acts) add_act(act);
    for (const SimulatedMessage& message : run_.messages) add_message(message);
  }

  void add_tracks(int rank_class) {
    auto& tracks = tracks_.emplace_back();
    for (size_t i = 0; i < tracks.size(); ++i) {
      const auto stream = static_cast<TaskStream>(i);
      if (!ranks_.has_stream(rank_class, stream)) continue;
      tracks[i] = simulation_.timeline.tracks.size();
      simulation_.timeline.tracks.push_back(
          {ranks_.representative(rank_class), std::string(to_text(stream)), {}});
    }
  }
  size_t track_of(ActorId actor) const {
    const auto stream = static_cast<size_t>(ranks_.stream_of_task(actors_.task_of(actor)));
    return tracks_[actors_.class_of(actor)][stream];
  }
  int64_t& begin_of(ActorId actor, int64_t step) { return begins_[actor * options_.steps + step]; }

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

  void add_times() {
    // By class, the acts of the last step: kernels, then exchanges and copies, ordered by begin.
    std::vector<Acts> kernels(ranks_.classes().count()), transfers(kernels.size());
    for (const SimulatedAct& act : run_.acts) {
      if (act.act.iteration != options_.steps - 1) continue;
      const Task::Kind kind = ranks_.task_of(act.actor).kind;
      if (kind == Task::Kind::kCompute) kernels[actors_.class_of(act.actor)].push_back(&act);
      if (kind == Task::Kind::kExchange || kind == Task::Kind::kCopy)
        transfers[actors_.class_of(act.actor)].push_back(&act);
    }
    std::vector<RankTimes> times;
    for (size_t i = 0; i < kernels.size(); ++i) times.push_back(times_of(kernels[i], transfers[i]));
    for (size_t i = 0; i < ranks_.ranks().size(); ++i) {
      const int rank_class = ranks_.classes().class_of[i];
      RankTimes& of_rank = simulation_.ranks.emplace_back(times[rank_class]);
      of_rank.rank = ranks_.ranks()[i];
      of_rank.representative = ranks_.representative(rank_class);
    }
  }

  using Acts = std::vector<const SimulatedAct*>;
  static int64_t sum(const Acts& acts) {
    int64_t time = 0;
    for (const SimulatedAct* act : acts) time += act->end - act->start;
    return time;
  }

  RankTimes times_of(const Acts& kernels, const Acts& transfers) const {
    RankTimes times;
    times.compute = seconds(sum(kernels));
    times.exchange = seconds(sum(transfers));
    times.exposed = seconds(without(covered(transfers), covered(kernels)));
    add_span(kernels, times);
    return times;
  }

  using Intervals = std::vector<std::pair<int64_t, int64_t>>;
  /// The union of the intervals of acts, ascending.
  static Intervals covered(const Acts& acts) {
    Intervals list;
    for (const SimulatedAct* act : acts) {
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

  ///   kernels  the kernels of one rank in one step, ordered by begin
  void add_span(const Acts& kernels, RankTimes& times) const {
    const auto is_of_micro_batch = [&](const SimulatedAct* act) {
      return ranks_.task_of(act->actor).micro_batch >= 0;
    };
    const bool any = std::any_of(kernels.begin(), kernels.end(), is_of_micro_batch);
    const auto bounds = [&](const SimulatedAct* act) { return !any || is_of_micro_batch(act); };
    const auto first = std::find_if(kernels.begin(), kernels.end(), bounds);
    if (first == kernels.end()) return;
    const auto last = std::find_if(kernels.rbegin(), kernels.rend(), bounds);
    int64_t idle = (*last)->end - (*first)->start;
    times.span = seconds(idle);
    for (auto act = first; act != last.base(); ++act) idle -= (*act)->end - (*act)->start;
    times.idle_in_span = seconds(idle);
  }

  const SimulatedRanks& ranks_;
  const ClassActors& actors_;
  const SimulatedRun run_;
  const SimulateOptions& options_;
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
  return Report(ranks, ranks.run(), options).make();
}

Simulation simulate(std::shared_ptr<const TaskGraph> graph, const ActTime& time,
                    const SimulateOptions& options) {
  const Demands demands{
      .of = [&](Rank rank, TaskId task) { return ActDemand{nanoseconds(time(rank, task)), {}}; }};
  return simulate(std::move(graph), demands, options);
}

}  // namespace tessera
