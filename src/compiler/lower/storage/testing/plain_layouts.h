// Plain layouts to compare with, and what every layout must be.
#pragma once

#include <string>

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// Each block at the lowest place that is free while it lives, the largest first: Pisarchyk and
/// Lee, arXiv 2001.03288.
///   time  O(n^2)
BlockLayout first_fit_by_size(const LiveBlocks& blocks);

/// A layout of the least size.
///   requires  at most 9 blocks: it tries all their orders
int64_t min_size(const LiveBlocks& blocks);

/// Says what is wrong with a layout: blocks that share bytes while both are alive, an offset that
/// is not aligned, a size that is not the end of the highest block; "" when nothing is.
///   time  O(n log n)
std::string offence_of(const LiveBlocks& blocks, const BlockLayout& layout);

}  // namespace tessera
