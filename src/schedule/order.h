// Order lists: in which order a stream executes its tasks. This room knows task graphs as data; it
// does not know what tasks compute. Credits (slots) bound memory; the order is decided here and
// nowhere else.
#pragma once

#include <vector>

#include "tasks/task_graph.h"

namespace tessera {

/// The tasks of a graph so that each comes after the tasks whose registers it reads; among those
/// that may come next, the one that stands first in TaskGraph::tasks. The same on every rank, so
/// collectives of one group follow one order and no rank waits for a task behind its own.
///
///   requires  producers and consumers of the registers are set; `graph.order` is not read
///   throws    InternalError that names a cycle of tasks
///   time      O((tasks + reads) log tasks)
///   source    Kahn, Topological sorting of large networks, CACM 5(11), 1962
std::vector<TaskId> program_order(const TaskGraph& graph);

}  // namespace tessera
