// The symbolic placement of each register of a task graph, as the check of placements derives it:
// which value of the serial graph it holds, how divided, and of which micro-batch. The declaration
// of a register must agree.
#pragma once

#include <map>
#include <vector>

#include "compiler/placement_check/internal/checked_program.h"
#include "ir/graph/graph.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// What a register represents.
struct SymbolicPlacement {
  /// The value of the serial graph; none while no task has filled the register.
  ValueId value;
  /// On the mesh of the register with the micro-batch axis.
  DistAttr attr;
  /// Of a register that is partial over micro-batches: the micro-batches whose partial values it
  /// holds, ascending.
  std::vector<int> summed;
  Chunk chunk = {};
};

/// threads  one caller at a time
class SymbolicPlacements {
 public:
  /// requires  `program` outlives this object
  explicit SymbolicPlacements(const CheckedProgram& program)
      : program_(program), placements_(program.tasks().registers.size()) {}

  const SymbolicPlacement& at(RegisterIndex reg) const { return placements_[reg]; }
  const IndexedVector<RegisterIndex, SymbolicPlacement>& all() const { return placements_; }
  /// The register that was last written to the memory of a variable.
  RegisterIndex last_in_variable(int variable) const { return last_in_variable_.at(variable); }

  /// Fills a register.
  ///   throws  InternalError when its declaration does not agree
  void fill(RegisterIndex index, SymbolicPlacement placement);

  /// Fills `target` with what is made of `source` and is divided like it.
  ///   throws  InternalError when the declaration of `target` does not agree
  void fill_from(RegisterIndex source, RegisterIndex target, SymbolicPlacement placement);

 private:
  void check_micro_batch(const Register& reg, const DistAttr& attr) const;
  void check_type(const Register& reg, const TensorType& whole) const;
  static void check_chunk(const Register& reg, const Chunk& chunk);

  const CheckedProgram& program_;
  IndexedVector<RegisterIndex, SymbolicPlacement> placements_;
  std::map<int, RegisterIndex> last_in_variable_;
};

}  // namespace tessera
