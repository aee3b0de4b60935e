#include "compiler/lower/storage/hazards.h"

#include <gtest/gtest.h>

#include "base/tensor/tensor.h"
#include "compiler/lower/internal/storage/block_layout.h"
#include "compiler/lower/storage/testing/plain_layouts.h"
#include "compiler/lower/storage/testing/random_blocks.h"

namespace tessera {
namespace {

constexpr int64_t kHazardsUnit = kTensorAlignment;
constexpr int64_t kHazardsSteps = 1'000'000;

BlockLayout hazards_layout_of(const LiveBlocks& blocks) {
  int64_t steps = kHazardsSteps;
  return lay_out(blocks, steps);
}

// 0:  a a . .   2 units at 0, read elsewhere
// 1:  . . b .   1 unit at 0
// 2:  . . . c   1 unit at 1: both have bytes of a
TEST(Hazards, AreTheBlocksThatHaveBytesOfOneThatIsReadElsewhere) {
  const LiveBlocks blocks = {
      {2 * kHazardsUnit, 0, 1, true}, {kHazardsUnit, 2, 2}, {kHazardsUnit, 3, 3}};
  EXPECT_EQ(count_hazards(blocks, {{0, 0, kHazardsUnit}, 2 * kHazardsUnit}), 2);
  EXPECT_EQ(count_hazards(blocks, {{kHazardsUnit, 0, 0}, 3 * kHazardsUnit}), 0);
}

// The layout is 3 units high because of the last two blocks. The first one is read elsewhere and
// may as well be above the second and the third.
TEST(Hazards, AreFewerWhenABlockMovesToAFreePlace) {
  const LiveBlocks blocks = {{kHazardsUnit, 0, 0, true},
                             {kHazardsUnit, 1, 1},
                             {2 * kHazardsUnit, 2, 2},
                             {2 * kHazardsUnit, 3, 3},
                             {kHazardsUnit, 3, 3}};
  BlockLayout layout{{0, 0, 0, 0, 2 * kHazardsUnit}, 3 * kHazardsUnit};
  EXPECT_EQ(count_hazards(blocks, layout), 3);
  reduce_hazards(blocks, kHazardsSteps, layout);
  EXPECT_EQ(layout.offsets,
            (IndexedVector<BlockIndex, int64_t>{2 * kHazardsUnit, 0, 0, 0, 2 * kHazardsUnit}));
  EXPECT_EQ(count_hazards(blocks, layout), 1);
}

TEST(Hazards, BecomeFewerInALayoutThatStaysValidAndIsNotLarger) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const LiveBlocks blocks = random_blocks({500, 800, 60, 32}, seed);
    const BlockLayout before = hazards_layout_of(blocks);
    BlockLayout after = before;
    reduce_hazards(blocks, kHazardsSteps, after);
    for (BlockIndex i : blocks.indices())
      EXPECT_TRUE(blocks[i].is_read_elsewhere || after.offsets[i] == before.offsets[i]);
    EXPECT_LE(after.size, before.size);
    EXPECT_EQ(offence_of(blocks, after), "") << "seed " << seed;
    EXPECT_LT(count_hazards(blocks, after), count_hazards(blocks, before)) << "seed " << seed;
  }
}

TEST(Hazards, StayWithoutSteps) {
  const LiveBlocks blocks = random_blocks({100, 100, 20, 8}, 1);
  BlockLayout layout = hazards_layout_of(blocks);
  const BlockLayout before = layout;
  reduce_hazards(blocks, 0, layout);
  EXPECT_EQ(layout.offsets, before.offsets);
}

}  // namespace
}  // namespace tessera
