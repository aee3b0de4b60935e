// Recurrent layers: a While runs a cell for each position of a sequence
// (ir/ops/control/control.h).
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ir/ops/builder.h"

namespace tessera {

/// Writes one step of a cell: the next state, from the row x[B, I] of a position, the state and the
/// captured values (its parameters).
using Cell = std::function<std::vector<ValueId>(
    Builder&, ValueId x, const std::vector<ValueId>& state, const std::vector<ValueId>& captured)>;

struct OverTime {
  ValueId outputs;             // [B, T, H]: the first state after each position
  std::vector<ValueId> state;  // after the last position
};
/// Runs a cell from the first position of x[B, T, I] to the last, in T iterations of one loop whose
/// body is planned once.
///
///   requires  state is not empty; state[0] is f32[B, H]
///   equals    the T cells written one after the other, including gradients. Unrolled cells are
///             computed once; the loop computes each cell twice more for the gradient
OverTime over_time(Builder& builder, ValueId x, const std::vector<ValueId>& state,
                   const std::vector<ValueId>& captured, const Cell& cell,
                   std::string_view name = "time");

}  // namespace tessera
