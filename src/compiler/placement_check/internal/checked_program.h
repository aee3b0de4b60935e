// What the parts of the check of placements read: a task graph and the serial graph that it is to
// compute. It does not change while it is checked.
#pragma once

#include <string>
#include <vector>

#include "compiler/placement_check/internal/micro_batch_axis.h"
#include "ir/graph/graph.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class CheckedProgram {
 public:
  /// requires  `graph` and `tasks` outlive this object
  CheckedProgram(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches);

  const Graph& graph() const { return graph_; }
  const TaskGraph& tasks() const { return tasks_; }
  const MicroBatchAxis& micro_batch_axis() const { return micro_batch_axis_; }

  Register reg(RegisterIndex reg) const { return tasks_.registers[reg]; }
  /// The coordinates at which parts, parameters and receives are compared.
  const std::vector<Coordinate>& coordinates(MeshIndex mesh) const { return coordinates_[mesh]; }

  const std::string& name_of(ValueId value) const { return graph_.value(value).name; }
  /// The name of a register in quotes: "'y #1'".
  std::string quoted(RegisterIndex reg) const { return "'" + tasks_.registers[reg].name + "'"; }

 private:
  const Graph& graph_;
  const TaskGraph& tasks_;
  MicroBatchAxis micro_batch_axis_;
  IndexedVector<MeshIndex, std::vector<Coordinate>> coordinates_;
};

}  // namespace tessera
