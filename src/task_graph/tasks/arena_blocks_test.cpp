#include "task_graph/tasks/arena_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::Optional;

struct Arena {
  std::vector<Rank> ranks;
  int64_t size;
  DeviceKind device = DeviceKind::kHost;
};

/// A task graph of nothing but arenas.
TaskGraph program(const std::vector<Arena>& arenas) {
  TaskGraph graph;
  for (const Arena& arena : arenas) {
    const auto count = static_cast<int>(arena.ranks.size());
    graph.meshes.push_back(
        std::make_shared<Mesh>(Shape{count}, std::vector<std::string>{"dp"}, arena.ranks));
    graph.arenas.push_back(Bytes(arena.size));
    graph.devices.push_back(arena.device);
  }
  return graph;
}

std::vector<int64_t> sizes(const ArenaBlocks& blocks) {
  std::vector<int64_t> list;
  for (const ArenaBlocks::Block& block : blocks.blocks()) list.push_back(block.size.value());
  return list;
}

constexpr MeshIndex kFirst(0), kSecond(1);

TEST(ArenaBlocks, OfOneProgramAreItsArenas) {
  ArenaBlocks blocks;
  const auto block_of = blocks.add(program({{{0}, 64}, {{0, 1}, 128}, {{1}, 256}}), 0);
  EXPECT_THAT(sizes(blocks), ElementsAre(128, 64));
  EXPECT_THAT(block_of[kFirst], Optional(1));
  EXPECT_THAT(block_of[kSecond], Optional(0));
  EXPECT_EQ(block_of[MeshIndex(2)], std::nullopt);  // of rank 1
  EXPECT_EQ(blocks.size(), Bytes(64 + 128));
}

TEST(ArenaBlocks, OfASmallerProgramAreThoseOfTheLargerOne) {
  ArenaBlocks blocks;
  blocks.add(program({{{0}, 64}, {{0}, 128}}), 0);
  const auto block_of = blocks.add(program({{{0}, 32}, {{0}, 64}}), 0);
  EXPECT_THAT(sizes(blocks), ElementsAre(128, 64));
  EXPECT_THAT(block_of[kSecond], Optional(1));  // the smallest one with space
  EXPECT_THAT(block_of[kFirst], Optional(0));   // the one that is left
}

TEST(ArenaBlocks, AreAddedWhereThereIsNoSpace) {
  ArenaBlocks blocks;
  blocks.add(program({{{0}, 64}}), 0);
  EXPECT_THAT(blocks.add(program({{{0}, 128}}), 0)[kFirst], Optional(1));
  EXPECT_THAT(sizes(blocks), ElementsAre(64, 128));
  // Two arenas of one program are alive together, and so in two blocks.
  const auto two = blocks.add(program({{{0}, 100}, {{0}, 100}}), 0);
  EXPECT_THAT(two[kFirst], Optional(1));
  EXPECT_THAT(two[kSecond], Optional(2));
  EXPECT_THAT(sizes(blocks), ElementsAre(64, 128, 100));
}

TEST(ArenaBlocks, OfAnAcceleratorAreInItsMemory) {
  ArenaBlocks blocks;
  blocks.add(program({{{0}, 128}}), 0);
  EXPECT_THAT(blocks.add(program({{{0}, 64, DeviceKind::kFake}}), 0)[kFirst], Optional(1));
}

TEST(ArenaBlocks, AreNoneWhereTheArenaIsEmpty) {
  ArenaBlocks blocks;
  EXPECT_EQ(blocks.add(program({{{0}, 0}}), 0)[kFirst], std::nullopt);
  EXPECT_EQ(blocks.size(), Bytes(0));
}

}  // namespace
}  // namespace tessera
