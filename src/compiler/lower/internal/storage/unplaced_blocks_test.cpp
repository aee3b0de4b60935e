#include "compiler/lower/internal/storage/unplaced_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/lower/internal/storage/skyline.h"
#include "compiler/lower/storage/testing/random_blocks.h"

namespace tessera {
namespace {

TEST(UnplacedBlocks, GivesTheForemostBlockThatLivesWithinATimeAndEachOnce) {
  const LiveBlocks blocks = {{64, 0, 9}, {64, 2, 4}, {64, 3, 3}};
  UnplacedBlocks unplaced(blocks);
  EXPECT_TRUE(unplaced.take(0, 9).is_none());
  const std::vector<BlockIndex> order = {BlockIndex(1), BlockIndex(2), BlockIndex(0)};
  unplaced.restart(order);
  EXPECT_EQ(unplaced.take(3, 9), BlockIndex(2));
  EXPECT_TRUE(unplaced.take(3, 9).is_none());
  EXPECT_EQ(unplaced.take(0, 9), BlockIndex(1));
  EXPECT_EQ(unplaced.take(0, 9), BlockIndex(0));
  unplaced.restart(order);
  EXPECT_EQ(unplaced.take(0, 9), BlockIndex(1));
}

TEST(UnplacedBlocks, AgreesWithASearchOfAllBlocks) {
  const LiveBlocks blocks = random_blocks({1000, 200, 60, 1}, 1);
  std::mt19937 draw(2);
  std::vector<BlockIndex> order(blocks.indices().begin(), blocks.indices().end());
  std::shuffle(order.begin(), order.end(), draw);
  UnplacedBlocks unplaced(blocks);
  unplaced.restart(order);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    const int begin = static_cast<int>(draw() % 200), end = begin + static_cast<int>(draw() % 100);
    const auto expected = std::find_if(order.begin(), order.end(), [&](BlockIndex block) {
      return blocks[block].begin >= begin && blocks[block].end <= end;
    });
    const BlockIndex found = unplaced.take(begin, end);
    ASSERT_EQ(found, expected == order.end() ? BlockIndex() : *expected);
    if (expected == order.end()) continue;
    order.erase(expected);
    ++taken;
  }
  EXPECT_GT(taken, 500);
}

TEST(Skyline, IsFilledFromTheLowestPieceUp) {
  const auto expect_lowest = [](Skyline& skyline, int begin, int end, int64_t height) {
    const Skyline::Piece piece = skyline.lowest();
    EXPECT_EQ(piece.begin, begin);
    EXPECT_EQ(piece.end, end);
    EXPECT_EQ(piece.height, height);
  };
  Skyline skyline(10);
  expect_lowest(skyline, 0, 9, 0);
  skyline.put_on_lowest(2, 5, 30);  // heights 0 0 30 30 30 30 0 0 0 0
  expect_lowest(skyline, 0, 1, 0);
  skyline.put_on_lowest(0, 1, 20);  // heights 20 20 30 30 30 30 0 0 0 0
  expect_lowest(skyline, 6, 9, 0);
  skyline.put_on_lowest(6, 7, 30);  // heights 20 20 30 30 30 30 30 30 0 0
  expect_lowest(skyline, 8, 9, 0);
  skyline.raise_lowest();  // heights 20 20 30 ... 30: one piece from 2 to 9
  expect_lowest(skyline, 0, 1, 20);
  skyline.put_on_lowest(1, 1, 10);  // heights 20 30 ... 30
  expect_lowest(skyline, 0, 0, 20);
  skyline.raise_lowest();
  expect_lowest(skyline, 0, 9, 30);
}

}  // namespace
}  // namespace tessera
