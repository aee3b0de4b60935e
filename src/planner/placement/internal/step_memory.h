// What a step holds: the live ranges of its registers, as the arena of its program has them
// (compiler/lower/internal/passes/arena.h).
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/placement/internal/step_registers.h"

namespace tessera {

struct StepMemoryOptions {
  /// Exchanges of gradients for the optimizer are moved after the last gradient of their bucket
  /// (compiler/lower/internal/passes/buckets.h); nullopt: they stay.
  std::optional<Bytes> bucket = {};
  std::vector<int64_t> workspaces;  // by op
};

/// The most bytes of a rank at one moment: variables in their canonical placement, and what is
/// alive in the arena.
///   time  O(n log n) for n registers
Bytes peak_of(const StepRegisters& step, const MayWriteOver& may_write_over,
              const StepMemoryOptions& options);

}  // namespace tessera
