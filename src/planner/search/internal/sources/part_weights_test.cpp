#include "planner/search/internal/sources/part_weights.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

/// Two devices of one machine each, with the rates of a common device and the given changes.
template <typename Change>
Cluster two_devices(const Change& change) {
  ClusterDescription description = parse_cluster_line("1xv100+1xa100").description();
  for (DeviceType& type : description.types) {
    type.cost = {};
    change(type.cost, type.name == description.machines.front().device);
  }
  return Cluster(description);
}

std::string weighted_mesh(const Cluster& cluster) {
  return to_text(*with_weights({std::make_shared<const Mesh>(parse_mesh("x=2"))}, cluster).back());
}

TEST(PartWeights, FollowFromTheRatesOfTheDevices) {
  EXPECT_EQ(weighted_mesh(two_devices([](DeviceCost& cost, bool is_first) {
              cost.flops_per_second = is_first ? 3e9 : 1e9;
            })),
            "x=3:1");
}

// A calibration multiplies the times of a class: three times as long is a third of the speed.
TEST(PartWeights, FollowFromTheTimeFactorOfMatmuls) {
  EXPECT_EQ(weighted_mesh(two_devices([](DeviceCost& cost, bool is_first) {
              if (is_first) cost.classes[OperationClass::kMatmul].time_factor = 3;
            })),
            "x=1:3");
}

// Twice the rate in three times the time that follows from it: 2/3 of the speed.
TEST(PartWeights, FollowFromRatesAndTimeFactorsTogether) {
  EXPECT_EQ(weighted_mesh(two_devices([](DeviceCost& cost, bool is_first) {
              if (is_first) cost.flops_per_second *= 2;
              if (is_first) cost.classes[OperationClass::kMatmul].time_factor = 3;
            })),
            "x=2:3");
}

// Half of the peak is half of the speed.
TEST(PartWeights, FollowFromTheEfficiencyOfLargeMatmuls) {
  EXPECT_EQ(weighted_mesh(two_devices([](DeviceCost& cost, bool is_first) {
              if (is_first) cost.classes[OperationClass::kMatmul].efficiency = {{{1e3, 0.5}}};
            })),
            "x=1:2");
}

TEST(PartWeights, DoNotFollowFromLaunches) {
  EXPECT_EQ(weighted_mesh(two_devices([](DeviceCost& cost, bool is_first) {
              if (is_first) cost.launch_factor = 8;
            })),
            "x=2");
}

}  // namespace
}  // namespace tessera
