// Exchanges that are what a library calls a collective: every process of a group gives a dense part
// and gets a dense part.
#pragma once

#include <functional>
#include <optional>

#include "comm/transport.h"
#include "reshard/reshard.h"

namespace tessera {

/// The exchange as a collective, when `receiver` takes part in one: all of a group pull from all of
/// it, each whole parts that lie dense one after the other, in the order of the group; sums of f32
/// and i32, all addends at once.
///   member_of  of each process; none has two of them
///   source     the names of MPI: allreduce, reduce_scatter, allgather
std::optional<Collective> find_collective(const TensorType& type, const Exchange& exchange,
                                          Rank receiver, const std::function<int(Rank)>& member_of);

}  // namespace tessera
