// The parts of check(TaskGraph). Each throws InternalError that names the first
// offence, and relies on the parts before it.
#pragma once

#include <string>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera::task_checks {

/// Every index names something, the order list names every task once, and attributes are of the
/// graph's mesh and the register's rank.
void check_indices(const TaskGraph& graph);
/// Every register is filled, and read after it was filled; a workspace is read by none.
void check_links(const TaskGraph& graph);
/// Feeds, exchanges and fetches read and fill what their kind says.
///   is_region  its results may be partial: its op reduces them
void check_kinds(const TaskGraph& graph, bool is_region = false);
/// Registers are aligned and inside their memory; two that share bytes are not alive together; what
/// other ranks read is written over only after they released it.
///   time  O(n log n) registers
void check_memory(const TaskGraph& graph);

/// Position of each task in the order list.
using TaskPositions = IndexedVector<TaskId, int>;
TaskPositions positions(const TaskGraph& graph);

inline Register register_at(const TaskGraph& graph, RegisterIndex reg) {
  return graph.registers[reg];
}
inline Task task_at(const TaskGraph& graph, TaskId task) {
  return graph.tasks[task];
}

[[noreturn]] void offence(const Task& task, const std::string& what);
[[noreturn]] void offence(const TaskForm& task, const std::string& what);
[[noreturn]] void offence(const Register& reg, const std::string& what);
[[noreturn]] void offence(const RegisterForm& reg, const std::string& what);

}  // namespace tessera::task_checks
