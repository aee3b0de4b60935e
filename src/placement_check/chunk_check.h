// Chunks, as the check of placements judges them: of the operands of an op, and of the kernels
// that take and join them.
#pragma once

#include "graph/graph.h"
#include "ops/sharding_rule.h"
#include "tasks/task_graph.h"

namespace tessera {

/// An op may work on one chunk of a factor where its parts are independent and the kernel need not
/// know where they lie: every operand that has the factor has that chunk of it, and no operand
/// another one.
///   throws  InternalError
void check_chunks(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                  const KernelStep& step);

/// Does `step` call take_chunk or join_chunks for the blocks that a rank has of `whole`?
/// `rest`: its parameters behind the blocks.
///   throws  InternalError
void check_chunk_call(const KernelStep& step, const Register& whole, const Chunk& chunk,
                      const std::vector<LocalInt>& rest);

/// How many parts ranks have of a dim.
int64_t parts_of_dim(const DistAttr& attr, int dim);

}  // namespace tessera
