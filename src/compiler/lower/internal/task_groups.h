// The groups of ops whose kernels may share a task, as the plan decides.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "compiler/plan/task_granularity.h"
#include "ir/graph/graph.h"

namespace tessera {

class TaskGroups {
 public:
  /// All kernels may share tasks.
  TaskGroups() = default;
  ///   time  O(ops x patterns), and that of find_repeated_layers for layers
  TaskGroups(const Graph& graph, const TaskGranularity& tasks);

  /// Is each kernel a task by itself?
  bool are_single() const { return are_single_; }
  /// The group of an op; nullopt for kernels of no op of the graph, such as copies and
  /// accumulations, which join any.
  std::optional<int> at(const std::string& op) const;

 private:
  bool are_single_ = false;
  std::unordered_map<std::string, int> group_of_op_;
};

}  // namespace tessera
