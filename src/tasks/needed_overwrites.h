// Which overwrites of a stream need a check.
#pragma once

#include <vector>

#include "tasks/task_graph.h"

namespace tessera {

/// Of the registers that each task of a stream overwrites, those whose readers it may have to wait
/// for: a register that has readers, unless an earlier task of the stream has already waited for
/// all of them and the stream has not filled the register since.
///
///   stream   the tasks of one stream of a rank, in the order that it repeats in every step
///   returns  by place in `stream`
///   time     O(overwrites): large graphs have a hundred for each task, of which few are needed
std::vector<std::vector<RegisterIndex>> needed_overwrites(const TaskGraph& graph,
                                                          const std::vector<TaskId>& stream);

}  // namespace tessera
