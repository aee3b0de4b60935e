// The invariants of a while: what its body computes anew in every iteration, although the loop does
// not change it.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/builder.h"

namespace tessera {

/// The parts of a while that is being built.
struct LoopParts {
  std::vector<ValueId> operands;  // carried and captured values of the graph around the loop
  size_t carried = 0;
  GraphPtr condition;
  GraphPtr body;
};

/// Moves the ops of the body that depend on captured values alone in front of the loop; their
/// results are captured instead of what only they read. "PATH.body.x" becomes "PATH.once.x". What
/// differs in placement between such an op and its operands is then exchanged once, and not in
/// every iteration.
///
///   leaves  random ops, whose numbers change with the iteration; ops with regions; constants and
///           others without operands, which are made where they are read; what a carried value
///           depends on
void move_invariants(Builder& builder, const std::string& path, LoopParts& parts);

}  // namespace tessera
