// The check of chunks (compiler/lower/passes/collective_matmul.h): of the operands of an op that
// works on one, and of the kernels that take and join them.
#pragma once

#include <vector>

#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "ir/graph/graph.h"
#include "ir/ops/sharding_rule.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Checks that an op that works on a chunk of a factor may do so: the parts of the factor are
/// independent, the kernel does not depend on their position, and every operand that has the factor
/// holds this chunk of it and no other.
///   throws  InternalError
void check_chunks(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                  const KernelStep& step);

/// Checks the kernels take_chunk and join_chunks, and fills what they make.
class ChunkCheck {
 public:
  /// requires  both outlive this object
  ChunkCheck(const CheckedProgram& program, SymbolicPlacements& placements)
      : program_(program), placements_(placements) {}

  /// throws  InternalError
  void check_take(const KernelStep& step);
  /// Checks that the inputs are the chunks 0, 1, 2, ... of one tensor, all of them.
  ///   throws  InternalError
  void check_join(const KernelStep& step);

 private:
  const CheckedProgram& program_;
  SymbolicPlacements& placements_;
};

}  // namespace tessera
