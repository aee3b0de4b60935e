// The search for a layout that is hardly larger than what is alive at once.
#pragma once

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// Gives every block an offset. The size is live_bound(blocks) or, for few inputs, little more: to
/// find the least size is NP-complete.
///
///   steps     what the search may cost, and on return what is left of it: steps of inner loops and
///             not seconds, so that every machine finds the same layout. Without any left, the
///             search still makes two layouts.
///   requires  every block has bytes, which are multiples of kTensorAlignment
///   ensures   so are the offsets
///   time      about O(n log n) for n blocks and each of at most 100 layouts
///   source    Sekiyama et al., arXiv 1804.10001 (the lowest place first); the blocks that are too
///             high come earlier the next time as in Joslin and Clements, "Squeaky Wheel"
///             Optimization (1999)
BlockLayout lay_out(const LiveBlocks& blocks, int64_t& steps);

}  // namespace tessera
