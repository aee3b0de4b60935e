// Dynamic storage allocation: the blocks that need bytes of one memory, each for a time that is
// known, and an offset for each of them. Plain numbers, without programs and registers.
#pragma once

#include <cstdint>

#include "base/index.h"

namespace tessera {

/// Bytes that are in use from one instant to another, both included.
struct LiveBlock {
  int64_t bytes = 0;  // above 0
  int begin = 0;      // at least 0
  int end = 0;        // at least `begin`
  /// Another rank or another stream reads it too: who writes over its bytes waits until they have.
  bool is_read_elsewhere = false;
};

using BlockIndex = Index<struct LiveBlockTag>;
using LiveBlocks = IndexedVector<BlockIndex, LiveBlock>;

/// Where each block begins, and the end of the highest one. Blocks that are alive at one instant
/// share no bytes.
struct BlockLayout {
  IndexedVector<BlockIndex, int64_t> offsets;
  int64_t size = 0;
};

/// The most bytes that are alive at one instant: no layout is smaller.
///   time  O(blocks + instants)
int64_t live_bound(const LiveBlocks& blocks);

/// The same blocks with fewer instants, such that the same ones are alive together: instants
/// between which no block begins after the end of another become one. They are numbered from 0.
///   time    O(blocks + instants)
///   source  Moffitt, MiniMalloc (ASPLOS 2023), the sections of a problem
LiveBlocks in_sections(LiveBlocks blocks);

}  // namespace tessera
