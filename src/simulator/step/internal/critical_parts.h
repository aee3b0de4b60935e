// The critical path of a predicted step in words.
#pragma once

#include <string>
#include <vector>

#include "simulator/clock/simulate.h"
#include "simulator/step/act_demands.h"

namespace tessera {

/// What a part of the critical path waits for: acts of one kind on one rank.
struct CriticalPart {
  std::string what;    // "matmul, forward", "all-reduce over tp", "messages between meshes"
  std::string layers;  // "blocks.{0..3}", of which the acts are; "" for none
  Rank rank = 0;       // of several identical ranks, the simulated one
  Seconds time{0};
};

/// The parts of the critical path of the last step, the longest first; together they are the step.
/// The time of an act is divided by the prices of its kernels.
///   requires  SimulateOptions::has_path_and_memory
std::vector<CriticalPart> critical_parts(const TaskGraph& graph, const Simulation& simulation,
                                         ActDemands& acts);

/// "62% matmul, forward of blocks.{0..23} on rank 0, 20% all-reduce over tp on rank 0, 18% others":
/// the parts that are at least 5% of the step.
std::string critical_text(const std::vector<CriticalPart>& parts);

}  // namespace tessera
