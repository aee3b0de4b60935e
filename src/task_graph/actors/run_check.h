// Checks of a task graph before it runs: it has no deadlock, and all ranks do their exchanges in
// one order. They also bound how fast the graph can run. Bytes in flight need no check here: they
// are slots of registers, and check() of task_graph/tasks/task_graph.h has found that they fit.
#pragma once

#include <string>
#include <vector>

#include "task_graph/actors/internal/marked_graph.h"
#include "task_graph/actors/task_actors.h"

namespace tessera {

/// By rank index: the tasks that the rank acts in, in order.
using Orders = std::vector<std::vector<TaskId>>;
/// The orders that the order list gives.
Orders orders_of(const TaskActors& actors);

/// The dependences of a task graph that runs repeatedly. A vertex is an actor, numbered by its id.
/// An edge goes from an act to an act that waits for it: the second act comes later on the same
/// stream, reads what the first filled, fills a slot that the first released, or overwrites bytes
/// that the first read.
///   labels  edge_text() turns them into text
MarkedGraph make_marked_graph(const TaskActors& actors, const Orders& orders);

/// Why one act waits for the other: "'b' of rank 1 reads 'y' of 'a' of rank 0".
std::string edge_text(const TaskActors& actors, const MarkedEdge& edge);

/// Checks that every cycle carries a token and that no two ranks do exchanges in opposite orders.
///   throws  InternalError that prints the cycle, one line per edge
///   time    O(tasks x ranks x senders)
void check_run(const TaskActors& actors, const Orders& orders);

/// The same for the order list, in a time that does not depend on the number of ranks. Ranks in the
/// same meshes execute the same tasks. So one rank is checked for each set of meshes, with
/// exchanges from all ranks of the sending mesh to all ranks of the receiving one. That graph has a
/// cycle without tokens whenever the whole graph has one; only then is every rank checked. Regions
/// are checked too.
///   time  O(tasks x sets of meshes), rarely more
void check_run(const TaskGraph& graph, const std::vector<Rank>& ranks);

}  // namespace tessera
