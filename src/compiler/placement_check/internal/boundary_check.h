// The check of what enters and leaves a task graph: inputs, variables and outputs of a step, or the
// operands and results of a region.
#pragma once

#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/region_placements.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "ir/graph/graph.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// throws  every method, InternalError
class BoundaryCheck {
 public:
  /// requires  both outlive this object
  BoundaryCheck(const CheckedProgram& program, SymbolicPlacements& placements)
      : program_(program), placements_(placements) {}

  /// Checks and fills what is fed and the variables.
  void begin_step();
  /// Checks that each variable has its next value and each output is returned whole.
  void end_step() const;

  /// Checks and fills the operands of a region.
  void begin_region(const RegionPlacements& region);
  /// Checks what a region returns, or carries to the next iteration.
  void end_region(const RegionPlacements& region) const;

 private:
  void fill_input(const TaskInput& input);
  void fill_variable(const TaskVariable& variable);
  void fill_operand(size_t index, const DistAttr& outside);
  void check_region_output(size_t index, RegisterIndex reg, const DistAttr& outside) const;
  /// index  of the variable in the task graph
  void check_variable(const Variable& variable, int index) const;
  void check_result(const std::string& name, RegisterIndex reg) const;
  void check_outputs() const;
  bool is_made_in_rows(ValueId value) const;

  const CheckedProgram& program_;
  SymbolicPlacements& placements_;
};

}  // namespace tessera
