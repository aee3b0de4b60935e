// The actors of a task graph and the messages between them: a pure function of the graph and the
// ranks, which the runtime, the checks before a run and the simulation share.
//
// A rank is named by its rank index: its index in the ascending list of all ranks of a run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "task_graph/actors/actor_ports.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Every rank has one actor for each task. The actor of a task on a mesh that does not include the
/// rank receives no messages.
///   threads  find_recv_regions() may run for different ranks at the same time; all other functions
///            are called after that, from any thread
class TaskActors {
 public:
  /// requires  `ranks` are ascending and include those of the meshes of `graph`
  TaskActors(std::shared_ptr<const TaskGraph> graph, std::vector<Rank> ranks);

  const TaskGraph& graph() const { return *graph_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  int rank_count() const { return static_cast<int>(ranks_.size()); }
  /// throws  InternalError when it is not one of the ranks
  int index_of(Rank rank) const;

  ActorId actor_id(int rank_index, TaskId task) const {
    return rank_index * task_count() + task.value();
  }
  RegisterId register_id(int rank_index, RegisterIndex reg) const {
    return rank_index * register_count() + reg.value();
  }
  int rank_index_of(ActorId actor) const { return actor / task_count(); }
  TaskId task_of(ActorId actor) const { return TaskId(actor % task_count()); }
  RegisterIndex register_of(RegisterId reg) const { return RegisterIndex(reg % register_count()); }

  /// The coordinate of a rank in mesh `mesh` of the graph; nullopt when the mesh does not include
  /// it.
  const std::optional<Coordinate>& coordinate(int rank_index, MeshIndex mesh) const {
    return coordinates_[rank_index][mesh];
  }
  bool acts_in(int rank_index, TaskId task) const {
    return coordinate(rank_index, task_at(task).mesh).has_value();
  }
  /// Finds what the exchanges of a rank receive. Call it once for every rank index, before the
  /// functions below.
  void find_recv_regions(int rank_index);

  /// The recv regions of the rank in part `part` of the exchange `task`.
  const std::vector<RecvRegion>& recv_regions(TaskId task, size_t part, int rank_index) const {
    return links(task, part, rank_index).recv_regions;
  }
  /// Rank indices from which it receives in part `part`, in the order of the first recv region. The
  /// input ports of its actor are those of the first part, then those of the next one.
  const std::vector<int>& senders(TaskId task, size_t part, int rank_index) const {
    return links(task, part, rank_index).senders;
  }
  bool recv_regions_from(TaskId task, size_t part, int receiver, int sender) const;
  /// Rank indices that receive from it in part `part`, ascending.
  std::vector<int> receivers(TaskId task, size_t part, int rank_index) const;

  ActorDescription describe(int rank_index, TaskId task) const;
  /// Only registers that have readers.
  std::vector<AntiDependence> overwrites(int rank_index, TaskId task) const;

 private:
  /// Of one part of an exchange.
  struct Links {
    std::vector<RecvRegion> recv_regions;
    std::vector<int> senders;
  };

  int task_count() const { return graph_->tasks.size(); }
  int register_count() const { return graph_->registers.size(); }
  Task task_at(TaskId task) const { return graph_->tasks[task]; }
  Register register_at(RegisterIndex reg) const { return graph_->registers[reg]; }
  const Links& links(TaskId task, size_t part, int rank_index) const {
    return links_[rank_index][task][part];
  }

  std::shared_ptr<const TaskGraph> graph_;
  std::vector<Rank> ranks_;
  std::vector<IndexedVector<MeshIndex, std::optional<Coordinate>>> coordinates_;  // by rank index
  /// By rank index, task and part; tasks of other kinds have none.
  std::vector<IndexedVector<TaskId, std::vector<Links>>> links_;
};

/// The actors of a task graph after find_recv_regions() of every rank, for callers with one thread.
TaskActors find_actors(std::shared_ptr<const TaskGraph> graph, std::vector<Rank> ranks);

}  // namespace tessera
