// Exchanges that are left to the library of the transport (Reduction::kFast). A rank begins one at
// its turn, when all of its group have filled what they give: then every other one comes there,
// too.
#include <algorithm>

#include "base/error.h"
#include "executor/rank_program.h"

namespace tessera {

/// Only where each member has one rank: several threads of one would begin what their groups do in
/// any order. Regions run within an act, and as often as their predicate says.
std::optional<Collective> RankProgram::plan_collective(TaskId id) const {
  const bool one_each = program_.network->size() == program_.actors->rank_count();
  if (program_.options.reduction != Reduction::kFast || !one_each || program_.is_region)
    return std::nullopt;
  const auto member_of = [this](Rank process) {
    return program_.members[program_.index_of(process)];
  };
  return find_collective(program_.reg(program_.task(id).inputs[0]).type, program_.task(id).exchange,
                         rank_, member_of);
}

void RankProgram::join_groups() {
  for (Plan& plan : plans_)
    if (plan.pulling.collective)
      plan.pulling.group = program_.network->groups().group_of(plan.pulling.collective->processes);
}

/// returns  false when the run stops
bool RankProgram::run_collective(const Task& task, Plan& plan, std::byte* target,
                                 const StepCall& call) {
  const Pulling& pulling = plan.pulling;
  const auto own =
      std::find(pulling.senders.begin(), pulling.senders.end(), index_) - pulling.senders.begin();
  together_.store(1, std::memory_order_relaxed);
  program_.network->groups().start(*pulling.collective, {pulling.group}, pulling.sources[own],
                                   target, together_);
  const auto is_over = [this] { return together_.load(std::memory_order_acquire) == 0; };
  return await(task, call, "the ranks that do it together", is_over, is_over);
}

}  // namespace tessera
