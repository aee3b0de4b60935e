// Checks of a task graph before it runs: that nobody will wait for ever, and that everybody does
// what they do together in one order. Beyond these, how fast it can run. Bytes under way need no
// check here: they are slots of registers, which check() of tasks/task_graph.h has found to fit.
#pragma once

#include <string>
#include <vector>

#include "actors/marked_graph.h"
#include "actors/task_actors.h"

namespace tessera {

/// By rank index: the tasks that it acts in, in the order in which it does.
using Orders = std::vector<std::vector<TaskId>>;
/// Those of the order list.
Orders orders_of(const TaskActors& actors);

/// What waits for what when the task graph runs over and over: a vertex an actor, with its number;
/// edges from acts to acts that wait for them because they come later on their stream (which does
/// one thing at a time), because they read what was filled, because they fill a slot again, or
/// because they write over what was read.
///   labels  what edge_text() makes a line of
MarkedGraph make_marked_graph(const TaskActors& actors, const Orders& orders);

/// Why one act waits for the other: "'b' of rank 1 reads 'y' of 'a' of rank 0".
std::string edge_text(const TaskActors& actors, const MarkedEdge& edge);

/// Checks that every cycle carries a token and that no two ranks do exchanges in opposite orders.
///   throws  InternalError that prints the circle, a line an edge
///   time    O(tasks x ranks x senders)
void check_run(const TaskActors& actors, const Orders& orders);

/// The same for the orders of the order list, whatever the number of ranks. Ranks that are
/// in the same meshes do the same: a graph with one rank for each set of meshes, in which an
/// exchange takes from all of the sending mesh and gives to all of the receiving one, has a circle
/// without token whenever the whole graph has. Only when it has one, every rank is looked at.
/// Regions are checked, too.
///   time    O(tasks x sets of meshes), rarely more
void check_run(const TaskGraph& graph, const std::vector<Rank>& ranks);

}  // namespace tessera
