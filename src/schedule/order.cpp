#include "schedule/order.h"

#include <functional>
#include <queue>

#include "base/error.h"
#include "base/text.h"

namespace tessera {

std::vector<TaskId> program_order(const TaskGraph& graph) {
  const auto at = [](auto& list, int index) -> auto& { return list[index]; };
  std::vector<int> missing(graph.tasks.size(), 0);  // registers that a task still waits for
  for (const Register& reg : graph.registers)
    for (TaskId consumer : reg.consumers)
      if (reg.producer >= 0 && consumer != reg.producer) ++at(missing, consumer);

  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (TaskId task = 0; task < static_cast<TaskId>(graph.tasks.size()); ++task)
    if (at(missing, task) == 0) ready.push(task);
  std::vector<std::vector<RegisterIndex>> filled_by(graph.tasks.size());
  for (RegisterIndex reg = 0; reg < static_cast<RegisterIndex>(graph.registers.size()); ++reg)
    if (at(graph.registers, reg).producer >= 0)
      at(filled_by, at(graph.registers, reg).producer).push_back(reg);

  std::vector<TaskId> order;
  while (!ready.empty()) {
    const TaskId task = ready.top();
    ready.pop();
    order.push_back(task);
    for (RegisterIndex reg : at(filled_by, task))
      for (TaskId consumer : at(graph.registers, reg).consumers)
        if (consumer != task && --at(missing, consumer) == 0) ready.push(consumer);
  }
  if (order.size() == graph.tasks.size()) return order;
  std::vector<std::string> stuck;
  for (size_t task = 0; task < graph.tasks.size(); ++task)
    if (missing[task] > 0) stuck.push_back("'" + graph.tasks[task].name + "'");
  throw InternalError("tasks wait for each other in a circle: " + join(stuck, ", "));
}

}  // namespace tessera
