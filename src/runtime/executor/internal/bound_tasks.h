// The bound tasks of one rank, and when each may act.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/executor/internal/bound_task.h"
#include "runtime/memory/program_context.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// threads  the thread of its rank
class BoundTasks {
 public:
  explicit BoundTasks(const ProgramContext& program) : program_(program) {
    tasks_.reserve(program.graph->tasks.size());
  }
  void add(BoundTask task) { tasks_.push_back(std::move(task)); }

  BoundTask& operator[](TaskId id) { return tasks_[id]; }
  const BoundTask& operator[](TaskId id) const { return tasks_[id]; }
  BoundTask& at(ActorId actor) { return tasks_[program_.actors->task_of(actor)]; }
  const BoundTask& at(ActorId actor) const { return tasks_[program_.actors->task_of(actor)]; }
  auto begin() { return tasks_.begin(); }
  auto end() { return tasks_.end(); }
  auto begin() const { return tasks_.begin(); }
  auto end() const { return tasks_.end(); }

  bool may_act(const BoundTask& task) const { return task.actor.ready() && may_overwrite(task); }
  /// Have the other readers released every register that the task overwrites?
  bool may_overwrite(const BoundTask& task) const {
    return std::all_of(
        task.overwrites.begin(), task.overwrites.end(), [&](const AntiDependence& it) {
          return at(it.producer).actor.is_released(it.reg, task.actor.description().id);
        });
  }
  /// Have all readers released every slot that this rank has filled?
  bool are_outputs_released() const;
  /// Are all slots free and no messages left to wait for?
  bool is_quiescent() const;

  /// The largest number of messages that can be in flight to this rank. A slot is filled again only
  /// after its consumer has taken the message of the previous filling.
  size_t inbound_capacity() const;
  /// The largest number of messages that one act sends.
  size_t outbound_capacity() const;

 private:
  const ProgramContext& program_;
  IndexedVector<TaskId, BoundTask> tasks_;
};

}  // namespace tessera
