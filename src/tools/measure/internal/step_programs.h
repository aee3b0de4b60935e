// Programs whose steps are timed: chains of exchanges.
#pragma once

#include <vector>

#include "base/units.h"
#include "compiler/lower/lower.h"
#include "runtime/runtime/runtime.h"

namespace tessera {

/// A tensor of n f32 elements that `ranks` divide and gather in turn, `exchanges` times. Each
/// rank receives the parts of the others.
struct GatherChain {
  int64_t elements = 0;
  int exchanges = 8;
  std::vector<Rank> ranks = {0, 1};
};
TaskGraph gather_chain(const GatherChain& chain);

/// The shortest step of several. Of several processes all call it, and each has its own time.
///   elements  of the input "x" of the program
double min_step(Runtime& runtime, const TaskGraph& tasks, int64_t elements, int steps);

/// The time of the kernels of a chain beside its exchanges: of those that divide and gather, for
/// each exchange.
Seconds kernels_of_exchange(const GatherChain& chain);
/// scalar.mul of n elements.
Seconds scaling_time(int64_t elements);

}  // namespace tessera
