#include "compiler/lower/internal/storage/block_layout.h"

#include <gtest/gtest.h>

#include "base/tensor/tensor.h"
#include "compiler/lower/storage/testing/plain_layouts.h"
#include "compiler/lower/storage/testing/random_blocks.h"

namespace tessera {
namespace {

constexpr int64_t kUnit = kTensorAlignment;
constexpr int64_t kSteps = 1'000'000;

BlockLayout layout_of(const LiveBlocks& blocks, int64_t steps = kSteps) {
  return lay_out(blocks, steps);
}

double excess_of(int64_t size, const LiveBlocks& blocks) {
  return static_cast<double>(size) / static_cast<double>(live_bound(blocks)) - 1;
}

// 0:  a a . .     2 units
// 1:  . b b .     1 unit
// 2:  . . c c     3 units       alive: 2, 3, 4, 3
TEST(MostAlive, IsTheLargestSumAtOneInstant) {
  const LiveBlocks blocks = {{2 * kUnit, 0, 1}, {kUnit, 1, 2}, {3 * kUnit, 2, 3}};
  EXPECT_EQ(live_bound(blocks), 4 * kUnit);
  EXPECT_EQ(live_bound({}), 0);
}

// Between instants 3 and 8 nothing ends before the next block begins.
TEST(Sections, EndWhereABlockBeginsAfterTheEndOfAnother) {
  const LiveBlocks blocks = {{kUnit, 3, 9}, {kUnit, 5, 8}, {kUnit, 8, 9}, {kUnit, 10, 20}};
  const LiveBlocks sections = in_sections(blocks);
  const std::vector<std::pair<int, int>> expected = {{0, 0}, {0, 0}, {0, 0}, {1, 1}};
  for (BlockIndex i : blocks.indices()) {
    EXPECT_EQ(sections[i].begin, expected[i.value()].first) << i.value();
    EXPECT_EQ(sections[i].end, expected[i.value()].second) << i.value();
  }
}

TEST(Sections, KeepWhichBlocksAreAliveTogether) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const LiveBlocks blocks = random_blocks({40, 60, 9, 5}, seed);
    const LiveBlocks sections = in_sections(blocks);
    EXPECT_EQ(live_bound(sections), live_bound(blocks));
    for (BlockIndex i : blocks.indices())
      for (BlockIndex j : blocks.indices())
        EXPECT_EQ(sections[i].begin <= sections[j].end && sections[j].begin <= sections[i].end,
                  blocks[i].begin <= blocks[j].end && blocks[j].begin <= blocks[i].end);
  }
}

TEST(Layout, OfNothingIsEmpty) {
  EXPECT_EQ(layout_of({}).size, 0);
  EXPECT_TRUE(layout_of({}).offsets.empty());
}

TEST(Layout, OfBlocksThatLiveOneAfterAnotherIsTheLargest) {
  const BlockLayout layout = layout_of({{kUnit, 0, 1}, {3 * kUnit, 2, 2}, {2 * kUnit, 3, 7}});
  EXPECT_EQ(layout.size, 3 * kUnit);
  for (int64_t offset : layout.offsets) EXPECT_EQ(offset, 0);
}

// What a forward pass keeps for the backward one: the first block made is the last one that is
// read.
TEST(Layout, OfNestedLivesIsTheSum) {
  LiveBlocks blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back({(1 + i % 3) * kUnit, i, 99 - i});
  // 17 of one unit, 17 of two, 16 of three: 17 + 34 + 48 = 99.
  EXPECT_EQ(layout_of(blocks).size, 99 * kUnit);
}

// Each block lives with the one before it and the one after it. One unit and three alternate.
TEST(Layout, OfAStaircaseIsTwoNeighbours) {
  LiveBlocks blocks;
  for (int i = 0; i < 1001; ++i) blocks.push_back({(i % 2 == 0 ? 1 : 3) * kUnit, i, i + 1});
  EXPECT_EQ(layout_of(blocks).size, 4 * kUnit);
}

// Alive are 3 + 2, 2 + 2 + 1, 2 + 1, 3 + 2 units. First fit by size puts both blocks of 3 units at
// 0. Then the block of 2 units that lives from 1 to 3 is at 3, and the other one, which lives with
// it and with the first block, is at 5: 7 units. In a layout of 5 the first block is at 2.
TEST(Layout, IsNotMisledByTheLargestBlocks) {
  const LiveBlocks blocks = {
      {3 * kUnit, 0, 0}, {2 * kUnit, 0, 1}, {kUnit, 1, 2}, {2 * kUnit, 1, 3}, {3 * kUnit, 3, 5}};
  EXPECT_EQ(first_fit_by_size(blocks).size, 7 * kUnit);
  EXPECT_EQ(layout_of(blocks).size, 5 * kUnit);
}

TEST(Layout, IsTheLeastOneOfFewBlocks) {
  int first_fit_is_larger = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    const int count = 2 + static_cast<int>(seed % 6);
    const LiveBlocks blocks = random_blocks({count, 6, 6, 20}, seed);
    const int64_t smallest = min_size(blocks);
    const BlockLayout layout = layout_of(blocks);
    EXPECT_EQ(offence_of(blocks, layout), "") << "seed " << seed;
    EXPECT_EQ(layout.size, smallest) << "seed " << seed;
    first_fit_is_larger += first_fit_by_size(blocks).size > smallest ? 1 : 0;
  }
  EXPECT_GT(first_fit_is_larger, 10);  // so the cases are not trivial
}

// No byte is free at any instant: the hardest of all cases.
TEST(Layout, OfAPerfectPackingHasNoGap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const LiveBlocks blocks = perfect_packing(20, seed);
    ASSERT_EQ(live_bound(blocks), 20 * kUnit);
    EXPECT_EQ(layout_of(blocks).size, 20 * kUnit) << "seed " << seed;
  }
}

TEST(Layout, OfManyBlocksIsValidAndSmallerThanFirstFitBySize) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const LiveBlocks blocks = random_blocks({2000, 3000, 200, 64}, seed);
    const BlockLayout layout = layout_of(blocks);
    EXPECT_EQ(offence_of(blocks, layout), "") << "seed " << seed;
    EXPECT_LT(layout.size, first_fit_by_size(blocks).size) << "seed " << seed;
    EXPECT_LT(excess_of(layout.size, blocks), 0.08) << "seed " << seed;
  }
}

TEST(Layout, IsTheSameEachTime) {
  const LiveBlocks blocks = random_blocks({1000, 1000, 100, 32}, 1);
  EXPECT_EQ(layout_of(blocks).offsets, layout_of(blocks).offsets);
}

TEST(Layout, IsValidWithoutStepsAndNotLargerWithMore) {
  const LiveBlocks blocks = perfect_packing(200, 3);
  int64_t before = layout_of(blocks, 0).size;
  EXPECT_EQ(offence_of(blocks, layout_of(blocks, 0)), "");
  for (int64_t steps : {100'000, 1'000'000}) {
    const int64_t size = layout_of(blocks, steps).size;
    EXPECT_LE(size, before);
    before = size;
  }
}

TEST(Layout, SaysHowManyStepsAreLeft) {
  int64_t steps = kSteps;
  lay_out(perfect_packing(1000, 1), steps);  // not found within the steps
  EXPECT_EQ(steps, 0);
  steps = kSteps;
  lay_out({{kUnit, 0, 1}}, steps);
  EXPECT_LT(steps, kSteps);
  EXPECT_GT(steps, kSteps - 10);
}

// 100,000 registers: the backward reads what the forward made, in reverse, and each instruction has
// a workspace.
TEST(Layout, TakesFewStepsForEachOfManyBlocks) {
  constexpr int kLayers = 33'333;
  LiveBlocks blocks;
  for (int i = 0; i < kLayers; ++i) {
    blocks.push_back({(1 + i % 7) * kUnit, i, 2 * kLayers - 1 - i});
    blocks.push_back({(1 + i % 5) * kUnit, i, i});
    blocks.push_back({(1 + i % 3) * kUnit, 2 * kLayers - 1 - i, 2 * kLayers - 1 - i});
  }
  int64_t steps = 100 * kSteps;
  const BlockLayout layout = lay_out(blocks, steps);
  EXPECT_EQ(offence_of(blocks, layout), "");
  EXPECT_EQ(layout.size, live_bound(blocks));
  EXPECT_LT(100 * kSteps - steps, 100 * blocks.size());
}

TEST(PlainLayouts, FindWhatIsWrongWithALayout) {
  const LiveBlocks blocks = {{2 * kUnit, 0, 1}, {kUnit, 1, 2}, {kUnit, 2, 3}};
  EXPECT_EQ(offence_of(blocks, {{0, 2 * kUnit, 0}, 3 * kUnit}), "");
  EXPECT_EQ(offence_of(blocks, {{0, kUnit, 0}, 2 * kUnit}), "blocks 1 and 0 share bytes");
  EXPECT_EQ(offence_of(blocks, {{0, 2 * kUnit, 2 * kUnit}, 3 * kUnit}),
            "blocks 2 and 1 share bytes");
  EXPECT_EQ(offence_of(blocks, {{0, 2 * kUnit, 8}, 3 * kUnit}), "block 2 is not aligned");
  EXPECT_EQ(offence_of(blocks, {{0, 2 * kUnit, 0}, 4 * kUnit}),
            "the size is not the end of the highest block");
}

}  // namespace
}  // namespace tessera
