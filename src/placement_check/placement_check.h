// The check of placements: before anything runs, the task graph is read again, op by op, and what
// each register stands for is derived anew and compared with what the serial graph demands.
//
// It is an interpreter over places instead of numbers. It knows the serial graph, the rules and
// kernels of the catalogue, and the task graph; nothing that propagation or partition noted on the
// way.
#pragma once

#include "graph/graph.h"
#include "tasks/task_graph.h"

namespace tessera {

/// Does `tasks` compute `graph`?
///
///   requires  check(tasks) holds; `tasks` was made from `graph` in so many micro-batches
///   ensures   every kernel has the operands that the serial op has, of its own micro-batch,
///   divided as one choice of axes for the factors
///             of its rule allows, with the parameters of its operator there; what is an addend,
///             over ranks or over micro-batches, is reduced exactly once, over the right axes,
///             and before an op that is not linear in it; exchanges bring the boxes that their
///             placements say; every result and every next value of a variable is there, whole,
///             where it belongs
///   limits    parameters, parts and pulls are compared at every coordinate of a small mesh, on
///   corners and a sample of a large one. Bytes,
///             order and overwriting are judged by check(); the arithmetic of kernels by verify
///   throws    InternalError that names the op or register, what follows and what is declared
///   time      O(tasks x operands), and of each different exchange the pulls of at most 32
///   receivers
void check_placements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches);

}  // namespace tessera
