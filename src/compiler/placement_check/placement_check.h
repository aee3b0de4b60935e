// The check of placements: before anything runs, it reads the task graph op by op, derives what
// each register represents, and compares that with what the serial graph demands.
//
// It is an interpreter over symbolic placements instead of numbers. It knows the serial graph, the
// sharding rules and kernels of the catalogue, and the task graph; it knows nothing that
// propagation or partition derived.
#pragma once

#include "ir/graph/graph.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Checks that `tasks` computes `graph`.
///
///   requires  check(tasks) holds; `tasks` was made from `graph` in n micro-batches
///   ensures   every kernel has the operands of its serial op, of its own micro-batch, divided as
///             one choice of axes for the factors of its rule allows, and the parameters that its
///             operator has there;
///             partial values, over ranks or micro-batches, are reduced exactly once, over the
///             right axes, and before an op that is not linear in them;
///             exchanges transfer the boxes that their placements say;
///             every output and every next value of a variable is made, whole and where it is
///             declared
///   limits    parameters, parts and receives are compared at every coordinate of a small mesh, and
///             at the corners and a sample of a large one. Bytes, order and overwriting are checked
///             by check(), the arithmetic of kernels by verify
///   throws    InternalError that names the op or register, what is derived and what is declared
///   time      O(tasks x operands), and for each different exchange the recv regions of at most 32
///             receivers
void check_placements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches);

}  // namespace tessera
