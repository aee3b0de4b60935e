// The arena: the offset of each register. Registers that are never alive together share bytes.
#pragma once

#include "lower/program.h"

namespace tessera {

/// The arena of one mesh.
struct ArenaPlan {
  Bytes size{0};        // high-water mark
  Bytes live_bound{0};  // most bytes alive at once: no plan can be smaller
};

using ArenaPlans = IndexedVector<MeshIndex, ArenaPlan>;

/// Sets the offset of every register in the arena of its mesh, for the rank at the origin, whose
/// parts are the largest.
///
///   ensures  registers that are alive at one instruction do not share bytes, except an
///            element-wise result with an operand that it is written over and that has no later
///            reader; offsets are multiples of kTensorAlignment
///   time     O(n^2) for n registers
///   source   greedy by size (Pisarchyk and Lee, arXiv 2001.03288)
ArenaPlans plan_arenas(Program& program);

}  // namespace tessera
