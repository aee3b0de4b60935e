#include "tasks/like_tasks.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace tessera {
namespace {

class LikeTasks {
 public:
  explicit LikeTasks(const TaskGraph& graph) : graph_(graph) {}

  IndexedVector<TaskId, TaskId> find() const {
    std::unordered_map<size_t, std::vector<TaskId>> firsts;  // by hash
    IndexedVector<TaskId, TaskId> like;
    for (TaskId id : graph_.tasks.indices()) {
      std::vector<TaskId>& candidates = firsts[hash(id)];
      const auto found = std::find_if(candidates.begin(), candidates.end(),
                                      [&](TaskId first) { return are_alike(first, id); });
      const TaskId first = found == candidates.end() ? id : *found;
      if (first == id) candidates.push_back(id);
      like.push_back(first);
    }
    return like;
  }

 private:
  static bool same_register(const Register& a, const Register& b) {
    return a.mesh == b.mesh && a.type == b.type && a.storage == b.storage && a.attr == b.attr;
  }
  bool same_registers(const std::vector<RegisterIndex>& a,
                      const std::vector<RegisterIndex>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](RegisterIndex x, RegisterIndex y) {
                        return x == y || same_register(graph_.registers[x], graph_.registers[y]);
                      });
  }
  bool same_step(const KernelStep& a, const KernelStep& b) const {
    return a.purpose == b.purpose && a.control == b.control && a.call == b.call &&
           same_registers(a.inputs, b.inputs) && same_registers(a.outputs, b.outputs);
  }
  static bool same_part(const ExchangePart& a, const ExchangePart& b) {
    return a.exchange.kind == b.exchange.kind && a.exchange.from == b.exchange.from &&
           a.exchange.to == b.exchange.to;
  }

  bool are_alike(TaskId first, TaskId second) const {
    const Task &a = graph_.tasks[first], &b = graph_.tasks[second];
    return a.kind == b.kind && a.mesh == b.mesh &&
           std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                      [&](const auto& x, const auto& y) { return same_step(x, y); }) &&
           std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part) &&
           same_registers(a.inputs, b.inputs) && same_registers(a.outputs, b.outputs);
  }

  size_t hash(TaskId id) const {
    const Task& task = graph_.tasks[id];
    Hasher hasher;
    hasher.add(static_cast<int>(task.kind));
    hasher.add(task.mesh);
    for (const KernelStep& step : task.steps) {
      hasher.add(step.call.kernel);
      hasher.add(step.call.text);
    }
    for (const ExchangePart& part : task.parts) hasher.add(static_cast<int>(part.exchange.kind));
    for (RegisterIndex reg : task.inputs) hasher.add_each(graph_.registers[reg].type.shape);
    for (RegisterIndex reg : task.outputs) hasher.add_each(graph_.registers[reg].type.shape);
    return hasher.value();
  }

  const TaskGraph& graph_;
};

}  // namespace

IndexedVector<TaskId, TaskId> like_tasks(const TaskGraph& graph) {
  return LikeTasks(graph).find();
}

}  // namespace tessera
