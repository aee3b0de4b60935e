#include "executor/group_collective.h"

#include <algorithm>

#include "executor/collective.h"

namespace tessera {

void GroupCollective::start(int64_t, const Buffers& buffers) {
  target_ = buffers.target;
  is_started_ = false;
}

/// The transfer begins here, since the address of the rank's contribution is not known before.
bool GroupCollective::advance(BoxCombination& combination) {
  if (is_started_) return false;
  is_started_ = true;
  in_flight_.store(1, std::memory_order_relaxed);
  groups_.start(what_, {group_}, combination.sources[own_port_], target_, in_flight_);
  return true;
}

/// A group collective is used only when each process has one rank, because the threads of several
/// ranks would begin the collectives of their groups in any order. It is not used in regions, which
/// run within an act, as often as their predicate requires.
std::unique_ptr<ExchangeBackend> make_group_collective(const ProgramContext& program, TaskId id,
                                                       int rank_index) {
  const bool one_rank_each = program.network->size() == program.actors->rank_count();
  if (program.options.reduction != Reduction::kFast || !one_rank_each || program.is_region)
    return nullptr;
  const auto process_of = [&](Rank rank) { return program.process_of[program.index_of(rank)]; };
  const Task& task = program.task(id);
  auto found = find_collective(program.reg(task.inputs[0]).type, task.exchange,
                               program.ranks[rank_index], process_of);
  if (!found) return nullptr;
  const std::vector<int>& senders = program.actors->senders(id, rank_index);
  const size_t own = std::find(senders.begin(), senders.end(), rank_index) - senders.begin();
  return std::make_unique<GroupCollective>(program.network->groups(), std::move(*found), own);
}

}  // namespace tessera
