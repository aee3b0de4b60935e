// The check of kernels that accumulate micro-batches: each adds (or takes the maximum, ...) the
// partial values of two groups of micro-batches.
#pragma once

#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class AccumulationCheck {
 public:
  /// requires  both outlive this object
  AccumulationCheck(const CheckedProgram& program, SymbolicPlacements& placements)
      : program_(program), placements_(placements) {}

  /// Checks that the kernel reduces each micro-batch once, and fills the sum. With the last
  /// micro-batch the sum is no longer partial over them.
  ///   throws  InternalError
  void check(const KernelStep& step);

 private:
  void check_operands(const KernelStep& step, const SymbolicPlacement& a,
                      const SymbolicPlacement& b) const;

  const CheckedProgram& program_;
  SymbolicPlacements& placements_;
};

}  // namespace tessera
