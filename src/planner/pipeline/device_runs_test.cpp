#include "planner/pipeline/device_runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

DeviceRuns runs_of(const char* sequence, int ranks) {
  const Cluster cluster = parse_cluster_line(sequence);
  return DeviceRuns(identity_mapping(cluster, ranks));
}

TEST(DeviceRuns, OfManyRanksAreOneSixtyFourthOfThemAndMore) {
  const DeviceRuns runs = runs_of("128x8xa100-80g", 1024);
  EXPECT_EQ(runs.sizes_at(0), (std::vector<int>{16, 32, 64, 128, 256, 512, 1024}));
}

// The ranks 48 to 1023 have a run of 16; one of 32 would begin at a multiple of 32.
TEST(DeviceRuns, OfManyRanksBeginAtAMultipleOfTheirSize) {
  const DeviceRuns runs = runs_of("128x8xa100-80g", 1024);
  EXPECT_EQ(runs.sizes_at(48), (std::vector<int>{16}));
  EXPECT_EQ(runs.sizes_at(64), (std::vector<int>{16, 32, 64}));
  EXPECT_TRUE(runs.sizes_at(8).empty());
}

TEST(DeviceRuns, OfFewRanksBeginAtAnyMachine) {
  const DeviceRuns runs = runs_of("8x8xa100-80g", 64);
  EXPECT_EQ(runs.sizes_at(8), (std::vector<int>{1, 2, 4, 8, 16, 32}));
}

// Identical machines: the runs of one size are of one kind.
TEST(DeviceRuns, OfOneSizeAreOfOneKindWhereMachinesAreAlike) {
  EXPECT_EQ(runs_of("128x8xa100-80g", 1024).kinds(), 7);
}

}  // namespace
}  // namespace tessera
