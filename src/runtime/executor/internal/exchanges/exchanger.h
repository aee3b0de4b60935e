// The exchanges of one rank: prefetched ones, and those that run at their turn in the order list.
#pragma once

#include "runtime/executor/internal/actor_messages.h"
#include "runtime/executor/internal/bound_tasks.h"
#include "runtime/executor/internal/exchanges/prefetch_queue.h"
#include "runtime/executor/internal/record/rank_observer.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// threads  the thread of the rank
class Exchanger {
 public:
  Exchanger(const ProgramRanks& ranks, RankMemory& memory, BoundTasks& tasks,
            ActorMessages& messages, const RankObserver& observer)
      : ranks_(ranks),
        memory_(memory),
        tasks_(tasks),
        prefetches_(ranks.context(), memory, tasks, messages, observer) {}
  /// requires  the table of tasks is complete
  void plan() { prefetches_.plan(); }
  /// Makes the groups of the exchanges that need one.  requires  as ExchangeBackend::join_group
  void join_groups();

  /// Begins the exchange of `task`, whose actor has begun an act. It is at its turn. When all
  /// senders are in this process, the exchange is over on return.
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
  BoundTasks& tasks_;
  PrefetchQueue prefetches_;
  BoundExchange* current_ = nullptr;  // the exchange in flight at its turn
};

}  // namespace tessera
