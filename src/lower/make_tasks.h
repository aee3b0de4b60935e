// The last compiler pass: the instructions of a program become the tasks of a task graph.
#pragma once

#include "lower/passes/arena.h"
#include "lower/program.h"
#include "lower/task_groups.h"
#include "tasks/task_graph.h"

namespace tessera {

/// Cuts a program into tasks: runs of kernels of one role, stage, mesh, pass and group between
/// exchanges and issue points. Sets the order list, overwrites, producers and consumers.
///
///   requires  `program` is unrolled, with the offsets of `arenas`
TaskGraph make_tasks(Program program, const ArenaPlans& arenas, const TaskGroups& groups = {});

}  // namespace tessera
