// A simulation of one rank of each class against that of all ranks.
#pragma once

#include <memory>
#include <string>

#include "simulator/clock/simulate.h"

namespace tessera {

struct SymmetryCheck {
  std::string difference;  // the first one between the two simulations; "": none
  int ranks = 0, simulated = 0;
};

/// Compares, to the nanosecond, the times of the step and of each rank, and each span of each rank
/// with that of its representative.
SymmetryCheck check_symmetry(const std::shared_ptr<const TaskGraph>& graph, const Demands& demands,
                             SimulateOptions options = {});

}  // namespace tessera
