// Random blocks, for tests.
#pragma once

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// What random_blocks samples, uniformly from 1 to these.
struct RandomBlocks {
  int count = 0;
  int instants = 0;
  int length = 0;         // of a life, in instants
  int units = 0;          // of a size, in kTensorAlignment
  int elsewhere_in = 10;  // one block of n is read elsewhere
};
LiveBlocks random_blocks(const RandomBlocks& largest, unsigned seed);

/// Blocks that fill a memory of `count` units of kTensorAlignment at each of 4 * `count` instants:
/// the rectangle is cut into two, at any instant or offset, until there are `count` blocks.
LiveBlocks perfect_packing(int count, unsigned seed);

}  // namespace tessera
