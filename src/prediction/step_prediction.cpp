#include "prediction/step_prediction.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "prediction/act_demands.h"
#include "prediction/exchange_names.h"
#include "tasks/like_tasks.h"

namespace tessera {
namespace {

struct Interval {
  double begin = 0, end = 0;
};

/// The length of what `interval` has outside of `covered`, whose parts are disjoint and ascending.
double outside(const Interval& interval, const std::vector<Interval>& covered) {
  double length = interval.end - interval.begin;
  auto part = std::lower_bound(covered.begin(), covered.end(), interval.begin,
                               [](const Interval& a, double begin) { return a.end <= begin; });
  for (; part != covered.end() && part->begin < interval.end; ++part)
    length -= std::min(part->end, interval.end) - std::max(part->begin, interval.begin);
  return std::max(length, 0.0);
}

std::vector<Interval> joined(std::vector<Interval> list) {
  std::sort(list.begin(), list.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& interval : list) {
    if (result.empty() || result.back().end < interval.begin)
      result.push_back(interval);
    else
      result.back().end = std::max(result.back().end, interval.end);
  }
  return result;
}

double length_of(const std::vector<Interval>& list) {
  return std::accumulate(list.begin(), list.end(), 0.0, [](double sum, const Interval& interval) {
    return sum + interval.end - interval.begin;
  });
}

/// Sums over the last step of a timeline.
class Breakdown {
 public:
  Breakdown(const TaskGraph& graph, const Timeline& timeline, Interval step)
      : timeline_(timeline), step_(step) {
    for (const Task& task : graph.tasks)
      if (task.kind == Task::Kind::kExchange) axes_.emplace(task.name, axes_of(task));
  }

  RankBreakdown of(Rank rank) const {
    std::vector<Interval> kernels;
    std::map<std::string, std::vector<Interval>> exchanges;
    for (const Track& track : timeline_.tracks) {
      if (track.rank != rank) continue;
      for (const Span& span : track.spans) add(span, kernels, exchanges);
    }
    std::vector<Interval> covered = joined(std::move(kernels));
    RankBreakdown breakdown{.rank = rank, .compute = Seconds(length_of(covered))};
    for (auto& [axes, list] : exchanges) {
      double exposed = 0;
      const std::vector<Interval> own = joined(std::move(list));
      for (const Interval& interval : own) exposed += outside(interval, covered);
      breakdown.exchanges[axes] = Seconds(length_of(own));
      covered.insert(covered.end(), own.begin(), own.end());
      covered = joined(std::move(covered));
      if (exposed > 0) breakdown.exposed[axes] = Seconds(exposed);
    }
    const double all = step_.end - step_.begin;
    breakdown.idle = Seconds(std::max(0.0, all - length_of(covered)));
    return breakdown;
  }

 private:
  void add(const Span& span, std::vector<Interval>& kernels,
           std::map<std::string, std::vector<Interval>>& exchanges) const {
    const Interval part{std::max(span.begin.value(), step_.begin),
                        std::min(span.end.value(), step_.end)};
    if (part.end <= part.begin) return;
    if (span.kind == Span::Kind::kAct) kernels.push_back(part);
    if (span.kind != Span::Kind::kCopy) return;
    const auto found = axes_.find(span.name);
    if (found != axes_.end()) exchanges[found->second].push_back(part);
  }

  const Timeline& timeline_;
  const Interval step_;
  std::map<std::string, std::string> axes_;  // of exchanges, by name
};

Bytes arena_of(const TaskGraph& graph, Rank rank) {
  Bytes bytes{0};
  for (MeshIndex mesh : graph.meshes.indices())
    if (graph.meshes[mesh]->coordinate_of(rank)) bytes += graph.arenas[mesh];
  return bytes;
}

/// Ranks that share a core share its memory evenly.
RankMemoryNeed memory_of(const TaskGraph& graph, Rank rank, const Deployment& deployment,
                         const PredictOptions& options) {
  const DeviceType& type = deployment.type(rank);
  const int64_t sharing = std::ranges::count(deployment.device_of_rank, deployment.device(rank));
  RankMemoryNeed memory{.variables = variable_bytes(graph, rank),
                        .arena = arena_of(graph, rank),
                        .reserve = type.reserve,
                        .capacity = Bytes(type.memory.value() / sharing)};
  for (const auto& other : options.beside) memory.others += arena_of(*other, rank);
  return memory;
}

}  // namespace

Seconds RankBreakdown::all_exposed() const {
  Seconds sum{0};
  for (const auto& [axes, time] : exposed) sum += time;
  return sum;
}

bool StepPrediction::fits() const {
  return std::all_of(memory.begin(), memory.end(),
                     [](const RankMemoryNeed& rank) { return rank.fits(); });
}

Bytes StepPrediction::peak_bytes() const {
  Bytes most{0};
  for (const RankMemoryNeed& need : memory) most = std::max(most, need.allocated());
  return most;
}

double StepPrediction::utilization() const {
  const double possible = peak_flops_per_second * step.value();
  return possible > 0 ? executed.value() / possible : 0;
}

double StepPrediction::bubble() const {
  double idle = 0;
  for (const RankBreakdown& rank : ranks) idle += rank.idle.value();
  return step.value() > 0 && !ranks.empty()
             ? idle / (step.value() * static_cast<double>(ranks.size()))
             : 0;
}

Seconds StepPrediction::exposed() const {
  double sum = 0;
  for (const RankBreakdown& rank : ranks) sum += rank.all_exposed().value();
  return Seconds(ranks.empty() ? 0 : sum / static_cast<double>(ranks.size()));
}

std::vector<RankMemoryNeed> memory_needs(const TaskGraph& graph, const Deployment& deployment,
                                         const PredictOptions& options) {
  std::vector<RankMemoryNeed> needs;
  for (const Rank rank : ranks(graph)) needs.push_back(memory_of(graph, rank, deployment, options));
  return needs;
}

StepPrediction predict_step(std::shared_ptr<const TaskGraph> graph, const Deployment& deployment,
                            const PredictOptions& options) {
  ensure(options.steps >= 2, "the last step of a simulation follows another one");
  ActDemands acts(*graph, deployment);
  const Demands demands{.resources = acts.resources(),
                        .of = [&](Rank rank, TaskId task) { return acts.demand(rank, task); },
                        .like = like_tasks(*graph),
                        .jitter = {}};
  Simulation simulation = simulate(graph, demands,
                                   {.steps = options.steps,
                                    .prefetch_exchanges = options.prefetch_exchanges,
                                    .folds_ranks = options.folds_ranks,
                                    .has_path_and_memory = options.explains});
  StepPrediction prediction;
  prediction.step = simulation.step;
  prediction.begin = simulation.end - simulation.step;
  const Breakdown breakdown(*graph, simulation.timeline,
                            {prediction.begin.value(), simulation.end.value()});
  const auto executed_by = [&](Rank rank) {
    Flops sum{0};
    for (TaskId task : graph->tasks.indices())
      if (graph->meshes[graph->tasks[task].mesh]->coordinate_of(rank))
        sum += acts.kernels(rank, demands.like.empty() ? task : demands.like[task]).flops;
    return sum;
  };
  std::map<Rank, std::pair<RankBreakdown, Flops>> simulated;
  for (const RankTimes& times : simulation.ranks) {
    const Rank like = times.representative;
    auto found = simulated.find(like);
    if (found == simulated.end())
      found = simulated.emplace(like, std::pair(breakdown.of(like), executed_by(like))).first;
    const DeviceType& type = deployment.type(times.rank);
    prediction.ranks.push_back(found->second.first);
    prediction.ranks.back().rank = times.rank;
    prediction.ranks.back().like = like;
    prediction.executed += found->second.second;
    prediction.memory.push_back(memory_of(*graph, times.rank, deployment, options));
    prediction.peak_flops_per_second +=
        type.cost.flops_rate(OperationClass::kMatmul, options.products);
  }
  if (options.explains) {
    prediction.critical = critical_parts(*graph, simulation, acts);
    prediction.memory_over_time = memory_over_time(*graph, simulation, acts);
  }
  prediction.timeline = std::move(simulation.timeline);
  return prediction;
}

}  // namespace tessera
