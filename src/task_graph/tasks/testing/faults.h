// Faults to plant into a task graph. After them link() has to be called, or the links be left wrong
// on purpose.
#pragma once

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Every reader of `from` reads `to` instead, and so does a result.
void read_instead(TaskGraph& tasks, RegisterFormIndex from, RegisterFormIndex to);

/// Nothing executes the exchange, which has one part, and its source is read instead of its target.
void leave_out(TaskGraph& tasks, TaskForm& exchange);

}  // namespace tessera
