// Finds ranks that do what others do already, or nothing: an axis that divides nothing, work that
// every rank of an axis repeats, ranks whose parts are empty.
#pragma once

#include <vector>

#include "compiler/lower/lower.h"

namespace tessera {

/// Repeated or idle work below this share of the flops of a step is not worth a note: the norms and
/// biases of tensor parallelism, and an optimizer whose state is replicated.
inline constexpr double kRedundantWorkShare = 0.05;

/// Notes of the kind kWaste, at most one for each axis, mesh and group of ranks:
///
///   axis     no op of a mesh is divided over an axis, so its ranks do the same work
///   repeats  all ranks of an axis compute ops with the same data, and these ops have more than
///            kRedundantWorkShare of the flops of a step
///   idle     ranks have empty parts of ops with more than kRedundantWorkShare of the flops of a
///            step, or of all ops of their mesh
///   mesh     no op is on a mesh
///
/// The flops of an op are those of the whole op, as if one rank computed it; an op that passes
/// partial sums over an axis does not repeat work, since its ranks have different data.
///   ensures  none for a plan of one rank
///   time     O(ops x axes); with empty parts, O(ranks) more for each op that has them
std::vector<ShardingNote> redundant_work_notes(const PlacedGraph& placed);

/// All that a user should know of the placements of a program: the notes of propagation, then those
/// of redundant_work_notes.
std::vector<ShardingNote> notes_of(const PlacedGraph& placed);

}  // namespace tessera
