// The arena: the offset of each register. Registers that are never alive together share bytes.
#pragma once

#include "compiler/lower/internal/program.h"
#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// The arena of one mesh.
struct ArenaPlan {
  Bytes size{0};        // high-water mark
  Bytes live_bound{0};  // most bytes alive at once: no plan can be smaller
  /// What is in it: the registers, of which those that are written over one another in place are
  /// one block. Instants are the instances counted from 1; 0 is before the first.
  LiveBlocks blocks;
  IndexedVector<BlockIndex, int64_t> offsets;
};

using ArenaPlans = IndexedVector<MeshIndex, ArenaPlan>;

/// Sets the offset of every register in the arena of its mesh (Program::offsets), for the rank at
/// the origin, whose parts are the largest: of a rolled program in each micro-batch.
///
///   ensures  registers that are alive at one instruction do not share bytes, except an
///            element-wise result with an operand that it is written over and that has no later
///            reader; offsets are multiples of kTensorAlignment, the same on every machine
///   time     O(n log n) for n registers, times a constant that the search is bounded by
///   source   compiler/lower/internal/storage/block_layout.h
ArenaPlans plan_arenas(Program& program);

/// What is in the arena of each mesh (ArenaPlan::blocks), without offsets.
///   time  O(instances)
IndexedVector<MeshIndex, LiveBlocks> arena_blocks(const Program& program);

}  // namespace tessera
