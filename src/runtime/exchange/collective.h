// Recognizes the exchanges that are collectives of a communication library.
#pragma once

#include <functional>
#include <optional>

#include "runtime/comm/transport.h"
#include "sharding/reshard/exchange.h"

namespace tessera {

/// The collective that the exchange is, when `receiver` takes part in one. In a collective every
/// rank of a group gives a dense part and receives from all ranks of the group, and the parts
/// follow each other in the order of the group. A sum is of f32 or i32 and adds all partial values
/// at once.
///   process_of  the process of a rank; no process has two ranks
///   source      the names of MPI: allreduce, reduce_scatter, allgather
std::optional<Collective> find_collective(const TensorType& type, const Exchange& exchange,
                                          Rank receiver,
                                          const std::function<int(Rank)>& process_of);

}  // namespace tessera
