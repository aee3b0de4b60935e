// Order lists: the order in which a stream executes its tasks. This module knows task graphs as
// data and not what tasks compute. Credits (slots) bound memory; this module decides the order.
#pragma once

#include <vector>

#include "tasks/task_graph.h"

namespace tessera {

/// The tasks of a graph, each after the tasks whose registers it reads. Among several tasks that
/// may come next, the first in TaskGraph::tasks is taken. The order is the same on every rank, so
/// the collectives of a group run in one order.
///
///   requires  producers and consumers of the registers are set; `graph.order` is not read
///   throws    InternalError that names a cycle of tasks
///   time      O((tasks + reads) log tasks)
///   source    Kahn, Topological sorting of large networks, CACM 5(11), 1962
std::vector<TaskId> program_order(const TaskGraph& graph);

}  // namespace tessera
