#include "runtime/executor/internal/record/wait_report.h"

#include <vector>

#include "base/text/text.h"

namespace tessera {

std::string awaited_text(const BoundTask& exchange) {
  return "'" + exchange.task.name + "' for " + std::string(exchange.exchange.backend->awaited());
}

/// "is at task 'matmul y'". The other rank continues meanwhile, so this is its last observed
/// position.
std::string WaitReport::position_text(int position) const {
  const auto& order = program_.graph->order;
  if (position < 0) return "has not begun";
  if (position >= static_cast<int>(order.size())) return "has ended a step";
  return "is at task '" + program_.task(order[position]).name + "'";
}

/// "'all-gather y' of rank 3, which is at task 'matmul y'". Only its own process knows the position
/// of a rank.
std::string WaitReport::actor_text(ActorId actor) const {
  const int index = program_.actors->rank_index_of(actor);
  const RankEndpoint* owner = index == rank_index_ ? nullptr : ranks_.find(index);
  const std::string where =
      owner ? ", which " + position_text(owner->position.load(std::memory_order_relaxed)) : "";
  return "'" + program_.task_of(actor).name + "' of rank " + std::to_string(program_.ranks[index]) +
         where;
}

std::string WaitReport::of_task(const BoundTask& task) const {
  const auto name = [&](RegisterId reg) {
    return "register '" + program_.register_of(reg).name + "'";
  };
  const auto held = [&](const BoundTask& producer, RegisterId reg) {
    std::vector<std::string> holders;
    for (ActorId holder : producer.actor.holders(reg))
      if (holder != task.actor.description().id) holders.push_back(actor_text(holder));
    return holders;
  };
  const ActorDescription& description = task.actor.description();
  std::vector<std::string> reasons;
  for (size_t port = 0; port < description.inputs.size(); ++port)
    if (!task.actor.has_input(port))
      reasons.push_back("waits for " + name(description.inputs[port].reg) + " from " +
                        actor_text(description.inputs[port].producer));
  for (const OutPort& port : description.outputs)
    if (const auto holders = held(task, port.reg); !holders.empty())
      reasons.push_back("waits for a free slot of " + name(port.reg) + ", held by " +
                        join(holders, ", "));
  for (const AntiDependence& overwrite : task.overwrites)
    if (const auto holders = held(tasks_.at(overwrite.producer), overwrite.reg); !holders.empty())
      reasons.push_back("waits to write over " + name(overwrite.reg) + ", held by " +
                        join(holders, ", "));
  return join(reasons, "; ");
}

std::string WaitReport::of_outputs() const {
  std::vector<std::string> reasons;
  for (const BoundTask& task : tasks_)
    for (const OutPort& port : task.actor.description().outputs)
      for (ActorId holder : task.actor.holders(port.reg))
        reasons.push_back("waits for register '" + program_.register_of(port.reg).name +
                          "', held by " + actor_text(holder));
  return join(reasons, "; ");
}

}  // namespace tessera
