// Task graphs in which nothing is shared by micro-batches.
#pragma once

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The same task graph, in which each task and each register has a form of its own, with its
/// number: a change of one micro-batch does not change the others.
TaskGraph unrolled(const TaskGraph& graph);

}  // namespace tessera
