#include "task_graph/tasks/testing/faults.h"

#include <algorithm>

namespace tessera {

void read_instead(TaskGraph& tasks, RegisterFormIndex from, RegisterFormIndex to) {
  for (TaskForm& task : tasks.tasks.forms()) {
    std::replace(task.inputs.begin(), task.inputs.end(), from, to);
    for (KernelForm& step : task.steps)
      std::replace(step.inputs.begin(), step.inputs.end(), from, to);
  }
  const RegisterNumbering& registers = tasks.registers.numbering();
  for (auto& [name, reg] : tasks.results)
    if (reg == registers.whole(from)) reg = registers.whole(to);
}

void leave_out(TaskGraph& tasks, TaskForm& exchange) {
  const RegisterFormIndex source = exchange.inputs.front(), target = exchange.outputs.front();
  exchange.kind = Task::Kind::kCompute;
  exchange.parts.clear();
  exchange.inputs.clear();
  exchange.outputs.clear();
  read_instead(tasks, target, source);
}

}  // namespace tessera
