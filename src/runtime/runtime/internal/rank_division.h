// The ranks of a run and the processes that run them.
#pragma once

#include <vector>

#include "base/units.h"
#include "runtime/comm/network.h"

namespace tessera {

///   throws  UserError (78) for more ranks than one process starts threads
void check_rank_count(const std::vector<Rank>& ranks);

/// By rank index: the process that runs each rank, in blocks; 0 without a network.
///   throws  UserError (78) for fewer ranks than processes
std::vector<int> processes_of(int ranks, const ProcessNetwork* network);

}  // namespace tessera
