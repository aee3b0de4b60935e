// What the ranks of a compiled plan receive in a step.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/units.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// A message goes from one rank to another in one exchange. Exchanges inside loops are left out.
struct Traffic {
  int64_t exchanges = 0;     // those in which something is sent
  Bytes bytes{0};            // received by all ranks together
  int64_t messages = 0;      // of all ranks together
  Bytes max_bytes{0};        // received by the rank that receives most bytes
  int64_t max_messages = 0;  // of the rank that receives most messages
  /// Of the exchanges that read variables alone, as gathers of parameters, that with the largest
  /// results in the arena of a rank.
  Bytes largest_of_variables{0};
  std::map<std::string, Bytes> bytes_over;  // by the mesh axes of the exchanges, of all ranks
};

/// The traffic of a step of all ranks.
///   time  O(exchanges x ranks) when few are distinct
Traffic traffic_of(const TaskGraph& graph);

}  // namespace tessera
