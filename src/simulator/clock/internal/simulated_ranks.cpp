#include "simulator/clock/internal/simulated_ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace tessera {

int64_t nanoseconds(Seconds time) {
  return std::llround(time.value() * 1e9);
}
Seconds seconds(int64_t nanoseconds) {
  return Seconds(static_cast<double>(nanoseconds) / 1e9);
}

namespace {

std::vector<double> factors_of(const std::vector<Rank>& ranks,
                               const std::vector<Straggler>& stragglers) {
  std::vector<double> factors(ranks.size(), 1);
  for (const Straggler& straggler : stragglers) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), straggler.rank);
    ensure(found != ranks.end() && *found == straggler.rank && straggler.factor > 0,
           "a straggler is a rank of the run, with a factor above 0");
    factors[found - ranks.begin()] = straggler.factor;
  }
  return factors;
}

TaskId asked_for(const Demands& demands, TaskId task) {
  return demands.identical.empty() ? task : demands.identical.at(task);
}

/// By mesh, the tasks whose demands are asked for.
IndexedVector<MeshIndex, std::vector<TaskId>> asked_tasks(const TaskGraph& graph,
                                                          const Demands& demands) {
  IndexedVector<MeshIndex, std::vector<TaskId>> asked(graph.meshes.size());
  for (TaskId task : graph.tasks.indices())
    if (asked_for(demands, task) == task) asked[graph.tasks[task].mesh].push_back(task);
  return asked;
}

RankFacts facts_of(const TaskGraph& graph, const std::vector<Rank>& ranks, const Demands& demands,
                   const std::vector<double>& factors) {
  const auto asked = asked_tasks(graph, demands);
  RankFacts facts;
  std::map<std::pair<std::vector<MeshIndex>, double>, int64_t> kinds;
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::vector<RankDemand>& list = facts.demands.emplace_back();
    std::vector<MeshIndex> meshes;
    bool has_jitter = false;
    for (MeshIndex mesh : graph.meshes.indices()) {
      if (!graph.meshes[mesh]->coordinate_of(ranks[i])) continue;
      meshes.push_back(mesh);
      for (TaskId task : asked[mesh]) {
        list.push_back({task, demands.demand(ranks[i], task)});
        has_jitter = has_jitter || (demands.jitter && demands.jitter(ranks[i], task) > 0);
      }
    }
    std::sort(list.begin(), list.end(),
              [](const RankDemand& a, const RankDemand& b) { return a.task < b.task; });
    const auto next = static_cast<int64_t>(kinds.size());
    const int64_t kind = kinds.try_emplace({meshes, factors[i]}, next).first->second;
    facts.kind.push_back(has_jitter ? -1 - static_cast<int64_t>(i) : kind);
  }
  return facts;
}

}  // namespace

SimulatedRanks::SimulatedRanks(std::shared_ptr<const TaskGraph> graph, const Demands& demands,
                               const SimulateOptions& options)
    : graph_(std::move(graph)),
      demands_(demands),
      options_(options),
      ranks_(tessera::ranks(*graph_)),
      factors_(factors_of(ranks_, options.stragglers)),
      links_(*graph_, ranks_),
      facts_(facts_of(*graph_, ranks_, demands, factors_)),
      classes_(options.uses_rank_symmetry
                   ? find_rank_classes(facts_, links_, *graph_, demands.resources)
                   : distinct_ranks(static_cast<int>(ranks_.size()), demands.resources)),
      actors_(*graph_, ranks_, links_, classes_),
      programs_(*graph_, actors_, classes_.count(), options.prefetch_exchanges) {
  add_demands();
}

bool SimulatedRanks::has_identical_steps() const {
  return options_.barrier_between_steps && options_.message.value() <= 0 && !demands_.jitter &&
         !options_.has_timeline;
}

SimulatedRun SimulatedRanks::run(int64_t steps) {
  for (ActorId actor = 0; actor < actors_.count(); ++actor)
    descriptions_.push_back(
        describe_actor(actors_, actors_.class_of(actor), actors_.task_of(actor)));
  setting_.overwrites.resize(actors_.count());
  for (int rank_class = 0; rank_class < classes_.count(); ++rank_class) add_streams(rank_class);
  setting_.barrier_between_iterations = options_.barrier_between_steps;
  setting_.records_messages = options_.has_timeline || options_.has_path_and_memory;
  setting_.resources = classes_.resources;
  setting_.demand = [this](ActorId actor) -> const ActDemand& { return *demand_of_[actor]; };
  if (demands_.jitter || !options_.stragglers.empty())
    setting_.slowdown = [this](ActorId actor, int64_t act) { return slowdown(actor, act); };
  if (options_.message.value() > 0)
    setting_.delay = [this](const Message& message) {
      return actors_.is_between_ranks(message) ? nanoseconds(options_.message) : 0;
    };
  return simulate_actors(std::move(descriptions_), steps, setting_);
}

/// The streams of a class that have work. What binds exchanges to their issue points are registers
/// that only the simulated actors have.
void SimulatedRanks::add_streams(int rank_class) {
  const ClassProgram& program = programs_.at(rank_class);
  for (const ClassProgram::Stream& stream : program.streams) {
    if (stream.tasks.empty()) continue;
    std::vector<ActorId>& actors = setting_.streams.emplace_back();
    for (size_t i = 0; i < stream.tasks.size(); ++i) {
      actors.push_back(actors_.actor_id(rank_class, stream.tasks[i]));
      setting_.overwrites[actors.back()] =
          anti_dependences(actors_, rank_class, stream.overwrites[i]);
    }
  }
  for (const auto& [from, to] : program.issue_edges)
    add_edge(actors_.actor_id(rank_class, from), actors_.actor_id(rank_class, to));
}

void SimulatedRanks::add_edge(ActorId from, ActorId to) {
  const RegisterId reg = actors_.register_count() + edges_++;
  descriptions_[from].outputs.push_back({reg, 1, {to}});
  descriptions_[to].inputs.push_back({reg, from, 1, 1});
}

/// Only the demands of representatives are kept.
void SimulatedRanks::add_demands() {
  for (int rank_class = 0; rank_class < classes_.count(); ++rank_class) {
    std::vector<RankDemand>& list = class_demands_.emplace_back(
        std::move(facts_.demands[classes_.representatives[rank_class]]));
    for (RankDemand& of_task : list)
      of_task.demand = on_classes(of_task.demand, rank_class, classes_);
  }
  facts_ = {};
  for (ActorId actor = 0; actor < actors_.count(); ++actor) {
    const auto& list = class_demands_[actors_.class_of(actor)];
    const TaskId asked = asked_for(demands_, actors_.task_of(actor));
    const auto found =
        std::lower_bound(list.begin(), list.end(), asked,
                         [](const RankDemand& a, TaskId task) { return a.task < task; });
    ensure(found != list.end() && found->task == asked,
           "a task demands as an earlier one of its mesh, which demands as itself");
    demand_of_.push_back(&found->demand);
  }
}

/// The factor of an act. That of its jitter has a log-normal distribution of mean 1.
double SimulatedRanks::slowdown(ActorId actor, int64_t act) const {
  const int rank = classes_.representatives[actors_.class_of(actor)];
  const TaskId task = actors_.task_of(actor);
  const double deviation = demands_.jitter ? demands_.jitter(ranks_[rank], task) : 0;
  if (deviation <= 0) return factors_[rank];
  const double variance = std::log1p(deviation * deviation);  // of the logarithm
  const uint64_t index = static_cast<uint64_t>(rank) * graph_->tasks.size() + task.value();
  const RandomStream random(random_key(options_.seed, "jitter"), act);
  return factors_[rank] * std::exp(std::sqrt(variance) * random.normal(index) - variance / 2);
}

}  // namespace tessera
