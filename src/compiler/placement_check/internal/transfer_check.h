// The check of tasks and kernels that move a value without computing: exchanges, copies between
// devices and hosts, and copies of registers.
#pragma once

#include <set>
#include <string>

#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class TransferCheck {
 public:
  /// requires  both outlive this object
  TransferCheck(const CheckedProgram& program, SymbolicPlacements& placements)
      : program_(program), placements_(placements) {}

  /// Checks that an exchange transfers between the placements of its registers and that its recv
  /// regions are right, and fills its target.
  ///   throws  InternalError
  void check_exchange(const Task& task);

  /// Checks a kernel that copies a register, and fills its target.
  ///   throws  InternalError
  void check_copy(const KernelStep& step);
  /// Checks a task that copies between a device and its host, and fills its target.
  ///   throws  InternalError
  void check_copy(const Task& task);

 private:
  void check_part(const Task& task, size_t part);
  void check_ends_and_recv_regions(const Task& task, size_t part);

  const CheckedProgram& program_;
  SymbolicPlacements& placements_;
  /// The texts of the exchanges whose recv regions were checked: equal exchanges are checked once.
  std::set<std::string> checked_exchanges_;
};

}  // namespace tessera
