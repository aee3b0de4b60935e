// The exchanges of one rank: those at their turn, and prefetches.
#pragma once

#include "executor/actor_messages.h"
#include "executor/prefetch_queue.h"
#include "executor/rank_memory.h"
#include "executor/rank_observer.h"
#include "executor/task_table.h"

namespace tessera {

/// threads  the thread of the rank
class Exchanger {
 public:
  Exchanger(const ProgramRanks& ranks, RankMemory& memory, TaskTable& tasks,
            ActorMessages& messages, const RankObserver& observer)
      : ranks_(ranks),
        memory_(memory),
        tasks_(tasks),
        prefetches_(ranks.context(), memory, tasks, messages, observer) {}
  /// requires  the table of tasks is complete
  void plan() { prefetches_.plan(); }
  /// Makes the groups of exchanges that have one.  requires  as ExchangeBackend::join_group
  void join_groups();

  /// Begins the exchange of `task`, whose turn it is and whose actor has begun an act. With all
  /// senders in this process it is over at once.
  void start(BoundTask& task);
  /// Advances the exchange that was started last.  returns  whether it is over
  bool advance();
  /// Would advance() or a prefetch do something?  threads  any, while the rank waits
  bool has_news() const;

  PrefetchQueue& prefetches() { return prefetches_; }
  Bytes staging_bytes() { return prefetches_.staging().size(); }

 private:
  const ProgramRanks& ranks_;
  RankMemory& memory_;
  TaskTable& tasks_;
  PrefetchQueue prefetches_;
  BoundExchange* current_ = nullptr;  // in flight, at its turn
};

}  // namespace tessera
