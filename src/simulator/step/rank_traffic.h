// What ranks send to each other in a step, from the compiled task graph.
#pragma once

#include <string>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

struct PairTraffic {
  Rank from = 0, to = 0;
  std::string axes;  // of the exchanges, as axes_of: "tp"; "" between meshes
  Bytes bytes{0};
  int64_t messages = 0;
};

/// By sender, receiver and axes, ascending. What a rank takes from itself is left out.
///   time  O(recv regions of distinct exchanges + tasks)
std::vector<PairTraffic> rank_traffic(const TaskGraph& graph);

}  // namespace tessera
