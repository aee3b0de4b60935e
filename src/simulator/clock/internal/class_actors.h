// The actors of a task graph with one rank for each class of ranks (rank_classes.h), and the
// messages between them.
#pragma once

#include <memory>
#include <vector>

#include "simulator/clock/internal/exchange_links.h"
#include "simulator/clock/internal/rank_classes.h"
#include "task_graph/actors/actor_ports.h"

namespace tessera {

/// As TaskActors (task_graph/actors/task_actors.h), of the representatives of classes. Ids are
/// dense: only a task that a class executes has an actor. An actor that exchanges with several
/// ranks of a class has one port for them, since they act at the same time.
class ClassActors {
 public:
  /// The arguments outlive this.
  ClassActors(const TaskGraph& graph, const std::vector<Rank>& ranks, const ExchangeLinks& links,
              const RankClasses& classes);

  int count() const { return static_cast<int>(tasks_.size()); }
  ActorId actor_id(int rank_class, TaskId task) const {
    const int first = first_actor_[rank_class][graph_.tasks[task].mesh];
    ensure(first >= 0, "the rank executes the task");
    return first + place_in_mesh_[task];
  }
  RegisterId register_id(int rank_class, RegisterIndex reg) const {
    return rank_class * graph_.registers.size() + reg.value();
  }
  /// Above those of all registers.
  RegisterId register_count() const { return register_id(classes_.count(), RegisterIndex(0)); }

  int class_of(ActorId actor) const { return class_of_[actor]; }
  TaskId task_of(ActorId actor) const { return tasks_[actor]; }
  RegisterIndex register_of(RegisterId reg) const {
    return RegisterIndex(reg % graph_.registers.size());
  }
  bool is_in(int rank_class, MeshIndex mesh) const { return first_actor_[rank_class][mesh] >= 0; }
  bool acts_in(int rank_class, TaskId task) const {
    return is_in(rank_class, graph_.tasks[task].mesh);
  }
  const TaskGraph& graph() const { return graph_; }
  /// The classes of the senders, each once, in the order of the first; and those of the receivers.
  std::vector<int> senders(TaskId task, size_t part, int rank_class) const;
  std::vector<int> receivers(TaskId task, size_t part, int rank_class) const;

  /// Whether ranks send the message to other ranks; ranks of one class may do so too.
  bool is_between_ranks(const Message& message) const;

 private:
  const TaskGraph& graph_;
  const ExchangeLinks& links_;
  const RankClasses& classes_;
  std::vector<IndexedVector<MeshIndex, int>> first_actor_;  // by class; -1: not in the mesh
  IndexedVector<TaskId, int> place_in_mesh_;
  std::vector<int> class_of_;  // by actor
  std::vector<TaskId> tasks_;  // by actor
};

}  // namespace tessera
