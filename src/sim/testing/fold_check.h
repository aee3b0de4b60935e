// A simulation of one rank of each class against that of all ranks.
#pragma once

#include <memory>
#include <string>

#include "sim/simulate.h"

namespace tessera {

struct FoldCheck {
  std::string difference;  // the first one between the two simulations; "": none
  int ranks = 0, simulated = 0;
};

/// Compares, to the nanosecond, the times of the step and of each rank, and each span of each rank
/// with that of its representative.
FoldCheck check_folding(const std::shared_ptr<const TaskGraph>& graph, const Demands& demands,
                        SimulateOptions options = {});

}  // namespace tessera
