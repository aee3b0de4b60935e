#include "task_graph/tasks/identical_tasks.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "task_graph/tasks/register_hash.h"

namespace tessera {
namespace {

/// The first element of each group of elements that are alike, by hash.
template <class Id>
class Groups {
 public:
  ///   returns  the first element that is like `id`: itself when there is none before
  template <class AreAlike>
  Id first_identical(Id id, size_t hash, const AreAlike& are_alike) {
    std::vector<Id>& firsts = firsts_[hash];
    for (Id first : firsts)
      if (are_alike(first, id)) return first;
    firsts.push_back(id);
    return id;
  }

 private:
  std::unordered_map<size_t, std::vector<Id>> firsts_;
};

class IdenticalTasks {
 public:
  explicit IdenticalTasks(const TaskGraph& graph) : graph_(graph) {
    Groups<RegisterIndex> groups;
    for (RegisterIndex reg : graph.registers.indices())
      identical_registers_.push_back(groups.first_identical(
          reg, hash(graph.registers[reg]), [&](RegisterIndex a, RegisterIndex b) {
            return are_alike(graph.registers[a], graph.registers[b]);
          }));
  }

  IndexedVector<TaskId, TaskId> find() const {
    Groups<TaskId> groups;
    IndexedVector<TaskId, TaskId> identical;
    for (TaskId id : graph_.tasks.indices())
      identical.push_back(groups.first_identical(
          id, hash(graph_.tasks[id]),
          [&](TaskId a, TaskId b) { return are_alike(graph_.tasks[a], graph_.tasks[b]); }));
    return identical;
  }

 private:
  /// Without the meshes, which are those of the registers.
  static bool same_placement(const DistAttr& a, const DistAttr& b) {
    return a.dims == b.dims && a.partial == b.partial;
  }
  static bool are_alike(const Register& a, const Register& b) {
    return a.mesh == b.mesh && a.type == b.type && a.storage == b.storage &&
           same_placement(a.attr, b.attr);
  }
  static size_t hash(const Register& reg) {
    Hasher hasher;
    add_placed_type(hasher, reg);
    return hasher.value();
  }

  template <class List>
  bool same_registers(const List& a, const List& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](RegisterIndex x, RegisterIndex y) {
                        return identical_registers_[x] == identical_registers_[y];
                      });
  }
  bool same_step(const KernelStep& a, const KernelStep& b) const {
    return a.purpose == b.purpose && a.control == b.control && a.call == b.call &&
           same_registers(a.inputs, b.inputs) && same_registers(a.outputs, b.outputs);
  }
  static bool same_part(const ExchangePart& a, const ExchangePart& b) {
    return a.exchange.kind == b.exchange.kind && same_placement(a.exchange.from, b.exchange.from) &&
           same_placement(a.exchange.to, b.exchange.to);
  }
  bool are_alike(const Task& a, const Task& b) const {
    return a.kind == b.kind && a.mesh == b.mesh && same_registers(a.inputs, b.inputs) &&
           same_registers(a.outputs, b.outputs) &&
           std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                      [&](const auto& x, const auto& y) { return same_step(x, y); }) &&
           std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part);
  }
  size_t hash(const Task& task) const {
    Hasher hasher;
    hasher.add(static_cast<int>(task.kind));
    hasher.add(task.mesh);
    for (const KernelStep& step : task.steps) {
      hasher.add(step.call->kernel);
      hasher.add(step.call->text);
    }
    for (const ExchangePart& part : task.parts) hasher.add(static_cast<int>(part.exchange.kind));
    for (RegisterIndex reg : task.inputs) hasher.add(identical_registers_[reg]);
    for (RegisterIndex reg : task.outputs) hasher.add(identical_registers_[reg]);
    return hasher.value();
  }

  const TaskGraph& graph_;
  IndexedVector<RegisterIndex, RegisterIndex> identical_registers_;
};

}  // namespace

IndexedVector<TaskId, TaskId> identical_tasks(const TaskGraph& graph) {
  return IdenticalTasks(graph).find();
}

}  // namespace tessera
