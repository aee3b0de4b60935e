// Who sends to whom in the exchanges of a task graph.
#pragma once

#include <span>
#include <vector>

#include "sharding/reshard/transfer_cache.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The senders and receivers of every exchange, by rank index (task_graph/actors/task_actors.h).
/// Exchanges that are alike share one table.
///   memory  O(distinct exchanges * messages of one)
class ExchangeLinks {
 public:
  /// requires  `ranks` are ascending and include those of the meshes of `graph`, which outlives
  /// this
  ExchangeLinks(const TaskGraph& graph, const std::vector<Rank>& ranks);

  /// Parts of equal classes have equal senders and receivers.
  ExchangeClass class_of(TaskId task, size_t part) const {
    return table_of_[first_part_[task] + part];
  }
  int classes() const { return tables_.size(); }

  /// From whom a rank receives, itself included, in the order of the first recv region.
  std::span<const int> senders(ExchangeClass exchange, int rank_index) const {
    return tables_[exchange].senders.at(rank_index);
  }
  std::span<const int> senders(TaskId task, size_t part, int rank_index) const {
    return senders(class_of(task, part), rank_index);
  }
  /// Who receives from a rank, itself included, in ascending order.
  std::span<const int> receivers(ExchangeClass exchange, int rank_index) const {
    return tables_[exchange].receivers.at(rank_index);
  }
  std::span<const int> receivers(TaskId task, size_t part, int rank_index) const {
    return receivers(class_of(task, part), rank_index);
  }
  /// One exchange of each kind.
  const std::vector<TaskId>& distinct() const { return distinct_; }

 private:
  /// Lists of rank indices by rank index.
  struct Lists {
    std::vector<int> first;  // of the list of each rank index; ends with the number of items
    std::vector<int> items;
    std::span<const int> at(int rank_index) const {
      return std::span(items).subspan(first[rank_index], first[rank_index + 1] - first[rank_index]);
    }
  };
  struct Table {
    Lists senders, receivers;
  };

  static Lists senders_of(ExchangeClass exchanges, const Mesh& receivers,
                          const std::vector<Rank>& ranks, TransferCache& recv_regions);
  static Lists reversed(const Lists& lists);

  IndexedVector<ExchangeClass, Table> tables_;
  std::vector<ExchangeClass> table_of_;       // by part of the distinct exchanges
  IndexedVector<TaskId, size_t> first_part_;  // of an exchange, in table_of_
  std::vector<TaskId> distinct_;
};

}  // namespace tessera
