// Who waits for whom: the text of a missed deadline.
#include "base/text.h"
#include "executor/rank_program.h"

namespace tessera {

/// "is at task 'matmul y'". The other rank goes on meanwhile: this is where it was last seen.
std::string RankProgram::place_text() const {
  const int place = place_.load(std::memory_order_relaxed);
  const auto& order = program_.graph->order;
  if (place < 0) return "has not begun";
  if (place >= static_cast<int>(order.size())) return "has ended a step";
  return "is at task '" + program_.task(order[place]).name + "'";
}

/// "'all-gather y' of rank 3, which is at task 'matmul y'".
std::string RankProgram::who(ActorId actor) const {
  const auto index = static_cast<size_t>(program_.actors->rank_index_of(actor));
  const auto& owner =
      program_.ranks[index];  // null: on another member, which alone knows where it is
  const std::string where =
      !owner || owner->index_ == index_ ? "" : ", which " + owner->place_text();
  return "'" + program_.task(program_.actors->task_of(actor)).name + "' of rank " +
         std::to_string(program_.processes[index]) + where;
}

std::string RankProgram::wait_text(const Plan& plan) const {
  const auto name = [&](RegisterId reg) {
    return "register '" + program_.reg(program_.actors->register_of(reg)).name + "'";
  };
  const auto held = [&](const Plan& producer, RegisterId reg) {
    std::vector<std::string> holders;
    for (ActorId holder : producer.actor.holders(reg))
      if (holder != plan.actor.description().id) holders.push_back(who(holder));
    return holders;
  };
  const ActorDescription& description = plan.actor.description();
  std::vector<std::string> reasons;
  for (size_t port = 0; port < description.inputs.size(); ++port)
    if (!plan.actor.has_input(port))
      reasons.push_back("waits for " + name(description.inputs[port].reg) + " from " +
                        who(description.inputs[port].producer));
  for (const OutPort& port : description.outputs)
    if (const auto holders = held(plan, port.reg); !holders.empty())
      reasons.push_back("waits for a free slot of " + name(port.reg) + ", held by " +
                        join(holders, ", "));
  for (const Overwrite& overwrite : plan.overwrites)
    if (const auto holders =
            held(this->plan(program_.actors->task_of(overwrite.producer)), overwrite.reg);
        !holders.empty())
      reasons.push_back("waits to write over " + name(overwrite.reg) + ", held by " +
                        join(holders, ", "));
  return join(reasons, "; ");
}

/// Who still reads what a region made.
std::string RankProgram::drain_text() const {
  std::vector<std::string> reasons;
  for (const Plan& plan : plans_)
    for (const OutPort& port : plan.actor.description().outputs)
      for (ActorId holder : plan.actor.holders(port.reg))
        reasons.push_back("waits for register '" +
                          program_.reg(program_.actors->register_of(port.reg)).name +
                          "', held by " + who(holder));
  return join(reasons, "; ");
}

}  // namespace tessera
