// The times of a step by the simulator, and by the actors of all ranks one by one. Test code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera::conformance {

/// "rank 2 stage0.forward 300 700" for each act, ordered: the nanoseconds of two steps with
/// durations that differ by task and rank.
std::vector<std::string> simulated_acts(const std::shared_ptr<const TaskGraph>& tasks);

/// The same of the actors of all ranks, which wait for every register that they overwrite.
std::vector<std::string> acts_of_actors(const std::shared_ptr<const TaskGraph>& tasks);

}  // namespace tessera::conformance
