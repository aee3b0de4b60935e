// The ports of the actors of a task graph, and what they write over. A party is a rank, or one of
// several ranks that do the same; who numbers parties, actors and registers is up to the table.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "task_graph/actors/actor.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// A register whose bytes an act overwrites. All its readers except the actor itself must have
/// released every slot before the actor acts. So a register that is updated in place counts as
/// released only when the readers of the result are done with the bytes.
struct AntiDependence {
  ActorId producer = 0;  // of the same party
  RegisterId reg = 0;
};

/// The actor of a task of a party that executes it. The input ports of an exchange are those of its
/// first part, then those of the next one.
///   table  has graph(), actor_id(party, task), register_id(party, register), and the parties
///          senders(task, part, party) and receivers(task, part, party), each once
template <class Table>
ActorDescription describe_actor(const Table& table, int party, TaskId id) {
  const TaskGraph& graph = table.graph();
  const Task& task = graph.tasks[id];
  ActorDescription actor{table.actor_id(party, id), task.name, {}, {}};
  actor.inputs.reserve(task.inputs.size());
  actor.outputs.reserve(task.outputs.size());
  const auto read = [&](int owner, RegisterIndex index) {
    const Register& reg = graph.registers[index];
    actor.inputs.push_back(
        {table.register_id(owner, index), table.actor_id(owner, reg.producer), 1, reg.slots});
  };
  const bool is_exchange = task.kind == Task::Kind::kExchange;
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    if (!is_exchange) read(party, task.inputs[i]);
    if (is_exchange)
      for (const int sender : table.senders(id, i, party)) read(sender, task.inputs[i]);
  }
  for (const RegisterIndex index : task.outputs) {
    const Register& reg = graph.registers[index];
    OutPort port{table.register_id(party, index), reg.slots, {}};
    for (const TaskId consumer : reg.consumers) {
      const Task& reader = graph.tasks[consumer];
      if (reader.kind != Task::Kind::kExchange) {
        port.consumers.push_back(table.actor_id(party, consumer));
        continue;
      }
      const size_t part = std::ranges::find(reader.inputs, index) - reader.inputs.begin();
      for (const int receiver : table.receivers(consumer, part, party))
        port.consumers.push_back(table.actor_id(receiver, consumer));
    }
    actor.outputs.push_back(std::move(port));
  }
  return actor;
}

/// Of the registers of a party that are written over.
template <class Table>
std::vector<AntiDependence> anti_dependences(const Table& table, int party,
                                             std::span<const RegisterIndex> registers) {
  std::vector<AntiDependence> list;
  list.reserve(registers.size());  // large runs have millions
  for (const RegisterIndex reg : registers)
    list.push_back({table.actor_id(party, table.graph().registers[reg].producer),
                    table.register_id(party, reg)});
  return list;
}

/// The tasks that a party executes, in the order of the order list.
///   table  has graph() and acts_in(party, task)
template <class Table>
std::vector<TaskId> order_of(const Table& table, int party) {
  std::vector<TaskId> order;
  for (const TaskId task : table.graph().order)
    if (table.acts_in(party, task)) order.push_back(task);
  return order;
}

}  // namespace tessera
