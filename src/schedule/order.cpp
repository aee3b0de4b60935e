#include "schedule/order.h"

#include <functional>
#include <queue>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

std::vector<TaskId> program_order(const TaskGraph& graph) {
  IndexedVector<TaskId, int> missing(graph.tasks.size(),
                                     0);  // registers that a task still waits for
  for (const Register& reg : graph.registers)
    for (TaskId consumer : reg.consumers)
      if (!reg.producer.is_none() && consumer != reg.producer) ++missing[consumer];

  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (TaskId task : graph.tasks.indices())
    if (missing[task] == 0) ready.push(task);
  IndexedVector<TaskId, std::vector<RegisterIndex>> filled_by(graph.tasks.size());
  for (RegisterIndex reg : graph.registers.indices())
    if (const TaskId producer = graph.registers[reg].producer; !producer.is_none())
      filled_by[producer].push_back(reg);

  std::vector<TaskId> order;
  while (!ready.empty()) {
    const TaskId task = ready.top();
    ready.pop();
    order.push_back(task);
    for (RegisterIndex reg : filled_by[task])
      for (TaskId consumer : graph.registers[reg].consumers)
        if (consumer != task && --missing[consumer] == 0) ready.push(consumer);
  }
  if (std::ssize(order) == graph.tasks.size()) return order;
  std::vector<std::string> stuck;
  for (TaskId task : graph.tasks.indices())
    if (missing[task] > 0) stuck.push_back("'" + graph.tasks[task].name + "'");
  throw InternalError("tasks wait for each other in a cycle: " + join(stuck, ", "));
}

}  // namespace tessera
