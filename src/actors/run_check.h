// Checks of a task graph before it runs: it has no deadlock, and all ranks do their exchanges in
// one order. It also bounds how fast the graph can run. Bytes in flight need no check here: they
// are slots of registers, which check() of tasks/task_graph.h has found to fit.
#pragma once

#include <string>
#include <vector>

#include "actors/marked_graph.h"
#include "actors/task_actors.h"

namespace tessera {

/// By rank index: the tasks that the rank acts in, in order.
using Orders = std::vector<std::vector<TaskId>>;
/// The orders that the order list gives.
Orders orders_of(const TaskActors& actors);

/// The dependences of a task graph that runs repeatedly. A vertex is an actor, numbered by its id.
/// An edge goes from an act to an act that waits for it: because it comes later on the same stream,
/// reads what the other filled, fills a slot that the other released, or overwrites what the other
/// read.
///   labels  what edge_text() makes a line of
MarkedGraph make_marked_graph(const TaskActors& actors, const Orders& orders);

/// Why one act waits for the other: "'b' of rank 1 reads 'y' of 'a' of rank 0".
std::string edge_text(const TaskActors& actors, const MarkedEdge& edge);

/// Checks that every cycle carries a token and that no two ranks do exchanges in opposite orders.
///   throws  InternalError that prints the cycle, a line an edge
///   time    O(tasks x ranks x senders)
void check_run(const TaskActors& actors, const Orders& orders);

/// The same for the order list, in a time that does not depend on the number of ranks. Ranks in the
/// same meshes execute the same tasks, so one rank is checked for each set of meshes, with
/// exchanges from all ranks of the sending mesh to all ranks of the receiving one: that graph has a
/// cycle without tokens whenever the whole graph has one. Only if it has one is every rank checked.
/// Regions are checked too.
///   time    O(tasks x sets of meshes), rarely more
void check_run(const TaskGraph& graph, const std::vector<Rank>& ranks);

}  // namespace tessera
