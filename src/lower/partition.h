// Partition: from a sharded serial graph to one program for every process of the mesh.
#pragma once

#include "lower/program.h"
#include "shard/propagate.h"

namespace tessera {

/// Makes every op local and inserts the exchanges where producer and consumer differ.
///
///   requires  sharded = propagate(graph, ...)
///   ensures   each op has its kernel call with its factors divided; a value is resharded to one placement once, however many ops want it, from that of its
///             registers from which the fewest bytes travel; the next value of a variable lies as the variable does
///   leaves    arena offsets and tasks to the next stages
Program partition(const Graph& graph, const ShardedGraph& sharded);

/// Lets the next value of each variable take the memory of the variable where no reader of the old value comes later; elsewhere appends a copy.
void update_variables_in_place(Program& program);

}  // namespace tessera
