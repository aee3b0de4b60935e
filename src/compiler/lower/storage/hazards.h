// Blocks that other ranks or streams read: who writes over their bytes waits until they have.
#pragma once

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// The pairs of a block that is read elsewhere and another one that has bytes of it, at any time.
/// Each is an order that the ranks or streams must keep.
///   time  O(n log n) for n blocks
int64_t count_hazards(const LiveBlocks& blocks, const BlockLayout& layout);

/// Moves blocks that are read elsewhere within the layout to where fewer others have bytes of them:
/// fewer tasks wait for other ranks and streams (count_hazards).
///   steps    what it may cost: a block costs as many as others are alive with it; those with the
///            most waits for their cost come first
///   ensures  the layout is valid and not larger; only blocks that are read elsewhere have moved
///   time     O(n log n) for n blocks, and O(log n) a step
void reduce_hazards(const LiveBlocks& blocks, int64_t steps, BlockLayout& layout);

}  // namespace tessera
