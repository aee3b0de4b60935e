// Local search: orders improved by small moves.
#pragma once

#include <cstdint>

#include "compiler/schedule/clock.h"

namespace tessera {

/// The objective: the duration of the step, or, for steps that overlap, the longest span of a
/// device from its first to its last pass.
enum class PipelineGoal { kStep, kSpan };

struct LocalSearchOptions {
  PipelineGoal goal = PipelineGoal::kStep;
  double enough = 0;  // the search stops at this value
  /// The number of passes that the clock may execute: a limit that is the same on every machine.
  int64_t work = 2'000'000;
  uint64_t seed = 1;
};

/// Moves passes within their devices until `work` is used up. Keeps every move that is not worse.
///   requires  orders of F, B and W without a deadlock
///   ensures   the result is not worse, and first_fault stays empty
DeviceOrders local_search(const PipelineShape& shape, DeviceOrders orders,
                          const LocalSearchOptions& options);

}  // namespace tessera
