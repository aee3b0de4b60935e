#include "simulator/clock/internal/class_actors.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// The classes of the ranks, each once, in the order of the first.
std::vector<int> classes_of(std::span<const int> rank_indices, const RankClasses& classes) {
  std::vector<int> found;
  for (int rank : rank_indices)
    if (const int of = classes.class_of[rank];
        std::find(found.begin(), found.end(), of) == found.end())
      found.push_back(of);
  return found;
}

}  // namespace

ClassActors::ClassActors(const TaskGraph& graph, const std::vector<Rank>& ranks,
                         const ExchangeLinks& links, const RankClasses& classes)
    : graph_(graph), links_(links), classes_(classes) {
  IndexedVector<MeshIndex, std::vector<TaskId>> tasks(graph.meshes.size());
  for (TaskId task : graph.tasks.indices()) {
    std::vector<TaskId>& list = tasks[graph.tasks[task].mesh];
    place_in_mesh_.push_back(static_cast<int>(list.size()));
    list.push_back(task);
  }
  for (int rank_class = 0; rank_class < classes.count(); ++rank_class) {
    auto& first = first_actor_.emplace_back(graph.meshes.size(), -1);
    for (MeshIndex mesh : graph.meshes.indices()) {
      if (!graph.meshes[mesh]->coordinate_of(ranks[classes.representatives[rank_class]])) continue;
      first[mesh] = count();
      tasks_.insert(tasks_.end(), tasks[mesh].begin(), tasks[mesh].end());
    }
    class_of_.resize(tasks_.size(), rank_class);
  }
}

std::vector<TaskId> ClassActors::order_of(int rank_class) const {
  std::vector<TaskId> order;
  for (TaskId task : graph_.order)
    if (acts_in(rank_class, task)) order.push_back(task);
  return order;
}

ActorDescription ClassActors::describe(ActorId actor) const {
  const Task& task = graph_.tasks[task_of(actor)];
  ActorDescription description{actor, task.name, input_ports(class_of(actor), task_of(actor)), {}};
  description.outputs.reserve(task.outputs.size());
  for (RegisterIndex reg : task.outputs)
    description.outputs.push_back(output_port(class_of(actor), reg));
  return description;
}

std::vector<InPort> ClassActors::input_ports(int rank_class, TaskId id) const {
  const Task& task = graph_.tasks[id];
  std::vector<InPort> ports;
  ports.reserve(task.inputs.size());
  const auto add = [&](int owner, RegisterIndex reg) {
    const Register& read = graph_.registers[reg];
    ports.push_back({register_id(owner, reg), actor_id(owner, read.producer), 1, read.slots});
  };
  const int rank = classes_.representatives[rank_class];
  if (task.kind == Task::Kind::kExchange)
    for (size_t part = 0; part < task.parts.size(); ++part)
      for (int owner : classes_of(links_.senders(id, part, rank), classes_))
        add(owner, task.inputs[part]);
  else
    for (RegisterIndex reg : task.inputs) add(rank_class, reg);
  return ports;
}

OutPort ClassActors::output_port(int rank_class, RegisterIndex index) const {
  const Register& reg = graph_.registers[index];
  OutPort port{register_id(rank_class, index), reg.slots, {}};
  const int rank = classes_.representatives[rank_class];
  for (TaskId consumer : reg.consumers) {
    if (graph_.tasks[consumer].kind != Task::Kind::kExchange) {
      port.consumers.push_back(actor_id(rank_class, consumer));
      continue;
    }
    const auto receivers = links_.receivers(consumer, part_of(consumer, index), rank);
    for (int receiver : classes_of(receivers, classes_))
      port.consumers.push_back(actor_id(receiver, consumer));
  }
  return port;
}

size_t ClassActors::part_of(TaskId exchange, RegisterIndex source) const {
  const std::span<const RegisterIndex> sources = graph_.tasks[exchange].inputs;
  return std::find(sources.begin(), sources.end(), source) - sources.begin();
}

std::vector<AntiDependence> ClassActors::overwrites(
    int rank_class, const std::vector<RegisterIndex>& registers) const {
  std::vector<AntiDependence> found;
  found.reserve(registers.size());  // large runs have millions
  for (RegisterIndex reg : registers)
    found.push_back(
        {actor_id(rank_class, graph_.registers[reg].producer), register_id(rank_class, reg)});
  return found;
}

bool ClassActors::is_between_ranks(const Message& message) const {
  const int rank_class = class_of(message.from);
  if (rank_class != class_of(message.to)) return true;
  const ActorId consumer = message.kind == Message::Kind::kReady ? message.to : message.from;
  const TaskId task = task_of(consumer);
  if (graph_.tasks[task].kind != Task::Kind::kExchange || message.reg >= register_count())
    return false;
  const int rank = classes_.representatives[rank_class];
  const auto senders = links_.senders(task, part_of(task, register_of(message.reg)), rank);
  return std::any_of(senders.begin(), senders.end(), [&](int sender) {
    return sender != rank && classes_.class_of[sender] == rank_class;
  });
}

}  // namespace tessera
