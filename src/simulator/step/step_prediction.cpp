#include "simulator/step/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "simulator/step/act_demands.h"
#include "simulator/step/internal/exchange_names.h"
#include "simulator/step/internal/rank_variables.h"
#include "simulator/step/internal/runtime_memory.h"
#include "task_graph/tasks/arena_blocks.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

Seconds seconds_of(int64_t nanoseconds) {
  return Seconds(static_cast<double>(nanoseconds) / 1e9);
}

/// In nanoseconds of the step.
struct Interval {
  int64_t begin = 0, end = 0;
};

/// The length of what `interval` has outside of `covered`, whose parts are disjoint and ascending.
int64_t outside(const Interval& interval, const std::vector<Interval>& covered) {
  int64_t length = interval.end - interval.begin;
  auto part = std::lower_bound(covered.begin(), covered.end(), interval.begin,
                               [](const Interval& a, int64_t begin) { return a.end <= begin; });
  for (; part != covered.end() && part->begin < interval.end; ++part)
    length -= std::min(part->end, interval.end) - std::max(part->begin, interval.begin);
  return length;
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

Seconds length_of(const std::vector<Interval>& list) {
  const int64_t nanoseconds = std::accumulate(
      list.begin(), list.end(), int64_t{0},
      [](int64_t sum, const Interval& part) { return sum + part.end - part.begin; });
  return seconds_of(nanoseconds);
}

/// Sums over the last step of a simulation.
class Breakdown {
 public:
  ///   like  as Demands::identical: identical exchanges are over the same axes
  Breakdown(const TaskGraph& graph, const IndexedVector<TaskId, TaskId>& identical, Seconds step)
      : graph_(graph), step_(step), axes_(graph.tasks.size(), nullptr) {
    for (const TaskId id : graph.tasks.indices()) {
      has_micro_batches_ |= graph.tasks[id].micro_batch >= 0;
      if (graph.tasks[id].kind != Task::Kind::kExchange) continue;
      axes_[id] = identical[id] == id ? &*names_.insert(axes_of(graph.tasks[id])).first
                                      : axes_[identical[id]];
    }
  }

  RankBreakdown breakdown(const RankActs& rank) const {
    std::vector<Interval> kernels;
    // A rank waits for an exchange at its turn before it does for one that was prefetched.
    std::map<std::string, std::vector<Interval>> at_turn, prefetched;
    RankBreakdown breakdown{.rank = rank.rank};
    for (const TimedAct& act : rank.acts) {
      if (act.start == act.end) continue;
      const Interval interval{act.start, act.end};
      const Task& task = graph_.tasks[act.task];
      if (task.kind == Task::Kind::kCompute) {
        kernels.push_back(interval);
        add(task, seconds_of(act.end - act.start), breakdown.passes[task.mesh]);
      }
      if (axes_[act.task])
        (task.issue_after.is_none() ? at_turn : prefetched)[*axes_[act.task]].push_back(interval);
    }
    std::vector<Interval> covered = joined(std::move(kernels));
    breakdown.compute = length_of(covered);
    for (const auto* exchanges : {&at_turn, &prefetched})
      for (const auto& [axes, list] : *exchanges) {
        int64_t exposed = 0;
        const std::vector<Interval> own = joined(list);
        for (const Interval& interval : own) exposed += outside(interval, covered);
        covered.insert(covered.end(), own.begin(), own.end());
        covered = joined(std::move(covered));
        if (exposed > 0) breakdown.exposed[axes] += seconds_of(exposed);
      }
    for (auto& [axes, list] : prefetched) {
      std::vector<Interval>& all = at_turn[axes];
      all.insert(all.end(), list.begin(), list.end());
    }
    for (auto& [axes, list] : at_turn)
      breakdown.exchanges[axes] = length_of(joined(std::move(list)));
    breakdown.idle = step_ - length_of(covered);
    return breakdown;
  }

 private:
  void add(const Task& task, Seconds time, PassTimes& passes) const {
    const bool is_once = has_micro_batches_ && task.micro_batch < 0;
    if (is_once || task.role == Role::kOptimizer)
      passes.once += time;
    else if (task.role == Role::kForward)
      passes.forward += time;
    else
      passes.backward += time;
  }

  const TaskGraph& graph_;
  const Seconds step_;
  bool has_micro_batches_ = false;
  std::set<std::string> names_;
  IndexedVector<TaskId, const std::string*> axes_;  // of exchanges, in names_
};

Bytes arena_of(const TaskGraph& graph, Rank rank) {
  Bytes bytes{0};
  for (MeshIndex mesh : graph.meshes.indices())
    if (graph.meshes[mesh]->coordinate_of(rank)) bytes += graph.arenas[mesh];
  return bytes;
}

/// By mesh, of a rank: inputs of the step.
IndexedVector<MeshIndex, Bytes> batch_bytes(const TaskGraph& graph) {
  IndexedVector<MeshIndex, Bytes> bytes(graph.meshes.size(), Bytes(0));
  for (const Task& task : graph.tasks) {
    if (task.kind != Task::Kind::kFeed) continue;
    for (const RegisterIndex output : task.outputs)
      if (const Register& reg = graph.registers[output]; reg.storage == Register::Storage::kArena)
        bytes[task.mesh] += total_size(reg);
  }
  return bytes;
}

/// Ranks that share a core share its memory evenly.
RankMemoryNeed memory_of(const TaskGraph& graph, const RankVariables& variables, Rank rank,
                         const Deployment& deployment, const PredictOptions& options) {
  const DeviceType& type = deployment.type(rank);
  const int64_t sharing = std::ranges::count(deployment.device_of_rank, deployment.device(rank));
  RankMemoryNeed memory{.variables = variables.in_memory(rank),
                        .arena = arena_of(graph, rank),
                        .reserve = type.reserve,
                        .capacity = Bytes(type.memory.value() / sharing),
                        .in_file = variables.in_file(rank)};
  if (options.beside.empty()) return memory;
  ArenaBlocks blocks;
  blocks.add(graph, rank);
  for (const auto& other : options.beside) blocks.add(*other, rank);
  memory.others = blocks.size() - memory.arena;
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
  Bytes largest{0};
  for (const RankMemoryNeed& need : memory) largest = std::max(largest, need.allocated());
  return largest;
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
  const IndexedVector<MeshIndex, Bytes> batch = batch_bytes(graph);
  const RankVariables variables(graph);
  std::vector<RankMemoryNeed> needs;
  for (const Rank rank : ranks(graph)) {
    needs.push_back(memory_of(graph, variables, rank, deployment, options));
    for (MeshIndex mesh : graph.meshes.indices())
      if (graph.meshes[mesh]->coordinate_of(rank)) needs.back().batch += batch[mesh];
  }
  return needs;
}

StepPrediction predict_step(std::shared_ptr<const TaskGraph> graph, const Deployment& deployment,
                            const PredictOptions& options) {
  ensure(options.steps >= 2, "the last step of a simulation follows another one");
  ActDemands acts(*graph, deployment);
  const Demands demands{.resources = acts.resources(),
                        .demand = [&](Rank rank, TaskId task) { return acts.demand(rank, task); },
                        .identical = identical_tasks(*graph),
                        .jitter = {}};
  SimulateOptions how{
      .steps = options.steps,
      .prefetch_exchanges = options.prefetch_exchanges,
      .uses_rank_symmetry = options.uses_rank_symmetry,
      .has_timeline = options.has_timeline,
      .has_path_and_memory = options.explains || options.finds_path || acts.fuses()};
  StepPrediction prediction;
  const Seconds constant = deployment.cluster->description().runtime.constant;
  if (options.limit) {
    const bool wants_more = std::exchange(how.has_path_and_memory, false);
    Simulation simulation = simulate(graph, demands, how);
    prediction.step = simulation.step + constant;
    if (prediction.step > *options.limit) return prediction;
    how.has_path_and_memory = wants_more;
  }
  Simulation simulation = simulate(graph, demands, how);
  prediction.step = simulation.step + constant;
  prediction.begin = simulation.end - simulation.step;
  const Breakdown breakdown(*graph, demands.identical, prediction.step);
  const auto executed_by = [&](const RankActs& rank) {
    KernelPrice sum;
    for (const TimedAct& act : rank.acts)
      sum = sum + acts.kernels(rank.rank, demands.identical.at(act.task));
    return sum;
  };
  std::map<Rank, std::pair<RankBreakdown, KernelPrice>> simulated;
  for (RankActs& rank : simulation.last_step) {
    simulated.emplace(rank.rank, std::pair(breakdown.breakdown(rank), executed_by(rank)));
    rank.acts = {};
  }
  for (const RankTimes& times : simulation.ranks) {
    const Rank representative = times.representative;
    const auto found = simulated.find(representative);
    const DeviceType& type = deployment.type(times.rank);
    prediction.ranks.push_back(found->second.first);
    prediction.ranks.back().rank = times.rank;
    prediction.ranks.back().representative = representative;
    prediction.executed += found->second.second.flops;
    prediction.padding += found->second.second.padding;
    prediction.peak_flops_per_second += type.peak(options.products);
  }
  prediction.memory = memory_needs(*graph, deployment, options);
  if (acts.fuses()) {
    const double held = 1 + deployment.cluster->description().runtime.margin;
    const std::map<Rank, Bytes> peaks = live_peaks(*graph, simulation, acts);
    for (size_t i = 0; i < prediction.memory.size(); ++i) {
      RankMemoryNeed& need = prediction.memory[i];
      const Bytes peak = peaks.at(prediction.ranks[i].representative);
      need.arena = Bytes(std::llround(held * static_cast<double>(peak.value())));
      need.batch = std::min(need.batch, need.arena);
      need.others = Bytes(0);
    }
  }
  if (options.explains) {
    prediction.critical = critical_parts(*graph, simulation, acts);
    if (constant > Seconds(0))
      prediction.critical.push_back({"the host between steps", "", 0, constant});
    prediction.memory_over_time = memory_over_time(*graph, simulation, acts);
  }
  if (options.finds_path) prediction.path.emplace(*graph, simulation, deployment);
  prediction.timeline = std::move(simulation.timeline);
  return prediction;
}

}  // namespace tessera
