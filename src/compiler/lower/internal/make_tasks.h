// The last compiler pass: the instructions of a program become the tasks of a task graph.
#pragma once

#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/program.h"
#include "compiler/lower/internal/task_groups.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Cuts a program into tasks: runs of kernels of one role, stage, mesh, pass and group between
/// exchanges and issue points. Sets the order list and overwrites, and links the tasks.
///
///   requires  `program` has the offsets of `arenas`
///   ensures   the forms of tasks and registers are those of the rolled program: they do not grow
///             with the number of micro-batches
TaskGraph make_tasks(Program program, const ArenaPlans& arenas, const TaskGroups& groups = {});

}  // namespace tessera
