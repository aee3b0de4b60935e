// Tasks of a task graph that do the same work, so that one of them is priced for all: the layers
// and the micro-batches of a model repeat few distinct tasks.
#pragma once

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// By task: the first task that does the same work on every rank. Tasks are alike when they are on
/// the same mesh, of the same kind, and run the same kernels or exchanges on tensors of the same
/// types and placements. Names, passes, micro-batches and addresses do not count.
///   time  O(1) for each task when few are distinct
IndexedVector<TaskId, TaskId> identical_tasks(const TaskGraph& graph);

}  // namespace tessera
