#include "simulator/clock/internal/exchange_links.h"

#include <algorithm>

#include "task_graph/tasks/identical_tasks.h"

namespace tessera {

ExchangeLinks::ExchangeLinks(const TaskGraph& graph, const std::vector<Rank>& ranks)
    : first_part_(graph.tasks.size(), 0) {
  TransferCache recv_regions;
  const IndexedVector<TaskId, TaskId> identical = identical_tasks(graph);
  for (TaskId id : graph.tasks.indices()) {
    const Task& task = graph.tasks[id];
    if (task.kind != Task::Kind::kExchange) continue;
    first_part_[id] = identical[id] == id ? table_of_.size() : first_part_[identical[id]];
    if (identical[id] != id) continue;
    distinct_.push_back(id);
    for (size_t part = 0; part < task.parts.size(); ++part) {
      const Shape& shape = graph.registers[task.inputs[part]].type->shape;
      const Exchange& exchange = task.parts[part].exchange;
      table_of_.push_back(recv_regions.class_of(shape, exchange));
      if (table_of_.back().value() < std::ssize(tables_)) continue;
      Lists senders = senders_of(table_of_.back(), *exchange.to.mesh, ranks, recv_regions);
      Lists receivers = reversed(senders);
      tables_.push_back({std::move(senders), std::move(receivers)});
    }
  }
}

ExchangeLinks::Lists ExchangeLinks::senders_of(ExchangeClass exchanges, const Mesh& receivers,
                                               const std::vector<Rank>& ranks,
                                               TransferCache& recv_regions) {
  Lists lists;
  for (Rank rank : ranks) {
    lists.first.push_back(static_cast<int>(lists.items.size()));
    if (!receivers.coordinate_of(rank)) continue;
    for (const RecvElements& recv_region : recv_regions.at(exchanges, rank)) {
      const auto found = std::lower_bound(ranks.begin(), ranks.end(), recv_region.sender);
      const int sender = static_cast<int>(found - ranks.begin());
      if (std::find(lists.items.begin() + lists.first.back(), lists.items.end(), sender) ==
          lists.items.end())
        lists.items.push_back(sender);
    }
  }
  lists.first.push_back(static_cast<int>(lists.items.size()));
  return lists;
}

ExchangeLinks::Lists ExchangeLinks::reversed(const Lists& lists) {
  const int ranks = static_cast<int>(lists.first.size()) - 1;
  std::vector<std::vector<int>> from(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int item : lists.at(rank)) from[item].push_back(rank);
  Lists made;
  for (const std::vector<int>& list : from) {
    made.first.push_back(static_cast<int>(made.items.size()));
    made.items.insert(made.items.end(), list.begin(), list.end());
  }
  made.first.push_back(static_cast<int>(made.items.size()));
  return made;
}

}  // namespace tessera
