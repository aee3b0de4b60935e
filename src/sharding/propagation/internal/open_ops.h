// What propagation has to look at: the ops and the values of which a placement has changed since it
// looked at them last.
#pragma once

#include <vector>

#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {

/// At the beginning every op and value is open. Looking at one that is not open would change
/// nothing: what an op decides follows from the placements of its operands alone.
class OpenOps {
 public:
  explicit OpenOps(const PropagationState& state);

  /// Is it open? It is closed afterwards.
  bool take(OpId op) { return take(is_op_open_, op.index); }
  bool take(ValueId value) { return take(is_value_open_, value.index); }
  /// Opens a value, of which a placement has changed, and the ops that read or make it.
  ///   value  that of the variable, of a variable and its next value
  void open(ValueId value);

 private:
  static bool take(std::vector<bool>& is_open, int index) {
    const bool was_open = is_open[index];
    is_open[index] = false;
    return was_open;
  }

  std::vector<bool> is_op_open_, is_value_open_;
  /// By value: the ops that read or make it, or what shares its placements.
  std::vector<std::vector<OpId>> ops_of_;
};

}  // namespace tessera
