#include "runtime/executor/internal/bound_tasks.h"

namespace tessera {

bool BoundTasks::are_outputs_released() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const BoundTask& task) {
    const auto& outputs = task.actor.description().outputs;
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](const OutPort& port) { return task.actor.is_released(port.reg, -1); });
  });
}

bool BoundTasks::is_quiescent() const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [](const BoundTask& task) { return task.actor.is_quiescent(); });
}

size_t BoundTasks::inbound_capacity() const {
  // Each stream of a device may have reached two events since the rank took its messages.
  size_t capacity = 1 + 2 * kTaskStreams;
  for (const BoundTask& task : tasks_) {
    for (const InPort& port : task.actor.description().inputs)
      capacity += program_.register_of(port.reg).slots;
    for (const OutPort& port : task.actor.description().outputs)
      capacity += port.slots * port.consumers.size();
  }
  return capacity;
}

size_t BoundTasks::outbound_capacity() const {
  size_t capacity = 1;
  for (const BoundTask& task : tasks_) {
    const ActorDescription& description = task.actor.description();
    size_t count = description.inputs.size();
    for (const OutPort& port : description.outputs) count += port.consumers.size();
    capacity = std::max(capacity, count);
  }
  return capacity;
}

}  // namespace tessera
