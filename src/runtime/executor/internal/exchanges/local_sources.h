// Finds the slots of an exchange that ranks of its own process have filled.
#pragma once

#include "runtime/executor/internal/bound_task.h"
#include "runtime/executor/internal/program_ranks.h"
#include "task_graph/actors/actor.h"

namespace tessera {

/// Points the sources of an exchange to the slots that `act` reads, for the senders in this
/// process.
inline void find_local_sources(const ProgramRanks& ranks, BoundTask& task, const Act& act) {
  BoundExchange& exchange = task.exchange;
  for (size_t port = 0; port < exchange.ports.size(); ++port)
    if (const RankEndpoint* sender = ranks.find(exchange.ports[port].sender))
      exchange.combination.sources[port] =
          sender->memory.slot(task.task.inputs[exchange.ports[port].part], act.input_slots[port]);
}

}  // namespace tessera
