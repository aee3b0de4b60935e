// What the tasks of a graph demand of the machines that they run on, as data: the simulator takes
// it and knows no prices.
#pragma once

#include <functional>

#include "base/index.h"
#include "base/units.h"
#include "task_graph/actors/simulated_run.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Links and cores, and what each act takes of them.
struct Demands {
  IndexedVector<ResourceId, Resource> resources = {};
  /// What an act of a task takes on a rank of the task's mesh; of an exchange, what the receiver
  /// receives. It is asked once for each rank and task, in any order.
  std::function<ActDemand(Rank, TaskId)> demand;
  /// By task: an earlier task of its mesh, or itself, that demands the same on every rank; then
  /// `of` is asked for that one only. identical_tasks (task_graph/tasks/identical_tasks.h) is such
  /// a list for prices that depend on the work alone. Empty: each task is asked for.
  IndexedVector<TaskId, TaskId> identical = {};
  /// The relative standard deviation, >= 0, of the fixed time and of the core time of an act: each
  /// act samples a factor of mean 1. Empty: 0.
  std::function<double(Rank, TaskId)> jitter = {};
};

}  // namespace tessera
