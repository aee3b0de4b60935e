// Recurrent layers: a cell that is run for each place of a sequence, by a While
// (ops/control/control.h).
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace tessera {

/// Writes one step of a cell: from the place's row x[B, I], its state and what it captures (its
/// parameters) the next state.
using Cell = std::function<std::vector<ValueId>(
    Builder&, ValueId x, const std::vector<ValueId>& state, const std::vector<ValueId>& captured)>;

struct OverTime {
  ValueId outputs;             // [B, T, H]: the first state after each place
  std::vector<ValueId> state;  // after the last one
};
/// Runs a cell from the first place of x[B, T, I] to the last, in T iterations of one loop whose
/// body is planned once.
///
///   requires  state is not empty; state[0] is f32[B, H]
///   equals    the T cells written one after the other, gradients, too; those compute each cell
///   once, these twice more for the gradient
OverTime over_time(Builder& builder, ValueId x, const std::vector<ValueId>& state,
                   const std::vector<ValueId>& captured, const Cell& cell,
                   std::string_view name = "time");

}  // namespace tessera
