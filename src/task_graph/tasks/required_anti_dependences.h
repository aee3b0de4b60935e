// Which overwrites of a stream need a check.
#pragma once

#include <functional>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Of the registers that each task of a stream overwrites, those whose readers it may have to wait
/// for: a register that has readers, unless an earlier task of the stream has already waited for
/// all of them and the stream has not filled the register since.
///
///   stream   the tasks of one stream of a rank, in the order that it repeats in every step
///   returns  by place in `stream`
///   time     O(overwrites)
std::vector<std::vector<RegisterIndex>> required_anti_dependences(
    const TaskGraph& graph, const std::vector<TaskId>& stream);

/// What the tasks of a stream overwrite, where that is too much to list: a program of many
/// micro-batches has thousands of registers for each task, of which few are needed.
struct AntiDependenceSource {
  /// Those that `task` overwrites, each once; it may leave out the released ones.
  std::function<std::vector<RegisterIndex>(TaskId task)> overwrites;
  /// The stream has waited for all readers of the register, which it fills again later.
  std::function<void(RegisterIndex reg)> release;
  /// The register is released no longer. Called for others, too.
  std::function<void(RegisterIndex reg)> fill;
};
/// The same with the overwrites of the source, in which no register is released at the beginning.
std::vector<std::vector<RegisterIndex>> required_anti_dependences(
    const TaskGraph& graph, const std::vector<TaskId>& stream, const AntiDependenceSource& source);

}  // namespace tessera
