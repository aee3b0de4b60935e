// The streams, demands and actors of the ranks of a task graph, ready to be simulated.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sim/class_actors.h"
#include "sim/simulate_options.h"

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

  /// Call it once.
  SimulatedRun run();

  const TaskGraph& graph() const { return *graph_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const RankClasses& classes() const { return classes_; }
  const ClassActors& actors() const { return actors_; }
  Rank representative(int rank_class) const { return ranks_[classes_.representatives[rank_class]]; }
  const Task& task_of(ActorId actor) const { return graph_->tasks[actors_.task_of(actor)]; }
  TaskStream stream_of_task(TaskId task) const;
  /// Whether the class has work for the stream; each has its host.
  bool has_stream(int rank_class, TaskStream stream) const;
  /// The registers that must have been released before the actor acts.
  const std::vector<Overwrite>& overwrites(ActorId actor) const {
    return setting_.overwrites[actor];
  }

 private:
  struct KnownStream {
    std::vector<TaskId> tasks;
    std::vector<std::vector<RegisterIndex>> overwrites;
  };

  void add_streams(int rank_class);
  void add_stream(int rank_class, const std::vector<TaskId>& tasks, KnownStream& known);
  void bind_to_issue_points(int rank_class);
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
  std::vector<ActorDescription> descriptions_;
  std::vector<std::array<bool, kTaskStreams>> has_stream_;  // by class
  std::vector<std::vector<RankDemand>> class_demands_;
  std::vector<const ActDemand*> demand_of_;  // by actor
  int edges_ = 0;                            // of bind_to_issue_points
  SimulatedSetting setting_;
  std::array<KnownStream, kTaskStreams> known_streams_;  // of the class before, for add_stream
};

}  // namespace tessera
