// The rows of the inputs of a step that ranks read.
#pragma once

#include <span>
#include <vector>

#include "base/tensor/split.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The rows of a batch of which some rank of `ranks` reads a part in a step of `graph`: ranges that
/// ascend and do not touch. Inputs without dims, the step and the rate, are no tensors of a batch.
///   time  O(r log r) for r rows of all inputs and ranks
std::vector<Range> rows_read(const TaskGraph& graph, std::span<const Rank> ranks);

/// The rows of [0, count) that are not in `rows`, which ascend.
std::vector<Range> other_rows(std::span<const Range> rows, int64_t count);

}  // namespace tessera
