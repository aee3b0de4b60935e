// Orders made better by small changes.
#pragma once

#include <cstdint>

#include "schedule/clock.h"

namespace tessera {

/// What counts: the whole step, or the longest span of a device from its first to its last pass
/// (steps that overlap).
enum class PipelineGoal { kStep, kSpan };

struct PolishOptions {
  PipelineGoal goal = PipelineGoal::kStep;
  double enough = 0;  // no need to be better
  int64_t work =
      2'000'000;  // passes that the clock may run: a bound that does not depend on the machine
  uint64_t seed = 1;
};

/// Moves passes within their devices for as long as `work` lasts; takes what is not worse.
///   requires  orders of F, B and W that the clock goes through
///   ensures   the result is not worse, and first_fault stays empty
DeviceOrders polish(const PipelineShape& shape, DeviceOrders orders, const PolishOptions& options);

}  // namespace tessera
