#include "runtime/exchange/group_collective.h"

#include <algorithm>

#include "runtime/exchange/collective.h"

namespace tessera {

void GroupCollective::start(int64_t, const Buffers& buffers) {
  targets_ = buffers.targets;
  is_started_ = false;
}

/// The transfers begin here, since the addresses of the rank's contributions are not known before.
bool GroupCollective::advance(BoxCombination& combination) {
  if (is_started_) return false;
  is_started_ = true;
  in_flight_.store(static_cast<int>(parts_.size()), std::memory_order_relaxed);
  for (size_t i = 0; i < parts_.size(); ++i)
    groups_.start(parts_[i].what, {parts_[i].group}, combination.sources[parts_[i].own_port],
                  targets_[i], in_flight_);
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
  std::vector<GroupCollective::Part> parts;
  size_t first_port = 0;
  for (size_t part = 0; part < task.parts.size(); ++part) {
    auto found = find_collective(program.reg(task.inputs[part]).type, task.parts[part].exchange,
                                 program.ranks[rank_index], process_of);
    const bool is_alone = found && parts.empty();
    if (!found || !(is_alone || found->processes == parts.front().what.processes)) return nullptr;
    const std::vector<int>& senders = program.actors->senders(id, part, rank_index);
    const size_t own = std::find(senders.begin(), senders.end(), rank_index) - senders.begin();
    parts.push_back({std::move(*found), first_port + own, -1});
    first_port += senders.size();
  }
  return std::make_unique<GroupCollective>(program.network->groups(), std::move(parts));
}

}  // namespace tessera
