// The programs, demands and actors of the ranks of a task graph, ready to be simulated.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "simulator/clock/internal/class_actors.h"
#include "simulator/clock/internal/class_programs.h"
#include "simulator/clock/internal/simulate_options.h"

namespace tessera {

/// A time in whole nanoseconds, so that sums are exact.
int64_t nanoseconds(Seconds time);
Seconds seconds(int64_t nanoseconds);

class SimulatedRanks {
 public:
  SimulatedRanks(std::shared_ptr<const TaskGraph> graph, const Demands& demands,
                 const SimulateOptions& options);
  SimulatedRanks(const SimulatedRanks&) = delete;  // its members refer to each other
  SimulatedRanks& operator=(const SimulatedRanks&) = delete;

  /// Are all steps alike, and is no timeline of them wanted?
  bool has_identical_steps() const;
  /// Call it once.
  SimulatedRun run(int64_t steps);

  const TaskGraph& graph() const { return *graph_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const RankClasses& classes() const { return classes_; }
  const ClassActors& actors() const { return actors_; }
  const ClassPrograms& programs() const { return programs_; }
  Rank representative(int rank_class) const { return ranks_[classes_.representatives[rank_class]]; }
  Task task_of(ActorId actor) const { return graph_->tasks[actors_.task_of(actor)]; }
  TaskStream stream_of_task(TaskId task) const { return programs_.stream_of_task(task); }
  /// The registers that must have been released before the actor acts.
  ///   requires  run()
  const std::vector<AntiDependence>& overwrites(ActorId actor) const {
    return setting_.overwrites[actor];
  }

 private:
  void add_streams(int rank_class);
  void add_edge(ActorId from, ActorId to);
  void add_demands();
  double slowdown(ActorId actor, int64_t act) const;

  const std::shared_ptr<const TaskGraph> graph_;
  const Demands& demands_;
  const SimulateOptions& options_;
  const std::vector<Rank> ranks_;
  const std::vector<double> factors_;  // by rank index: of stragglers
  const ExchangeLinks links_;
  RankFacts facts_;  // until add_demands()
  const RankClasses classes_;
  const ClassActors actors_;
  const ClassPrograms programs_;
  std::vector<std::vector<RankDemand>> class_demands_;
  std::vector<const ActDemand*> demand_of_;  // by actor
  // Of run():
  std::vector<ActorDescription> descriptions_;
  int edges_ = 0;
  SimulatedSetting setting_;
};

}  // namespace tessera
