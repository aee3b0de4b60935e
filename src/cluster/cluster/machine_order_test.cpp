#include "cluster/cluster/machine_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

using testing::ElementsAre;

std::vector<std::string> devices_of(const ClusterDescription& description) {
  std::vector<std::string> list;
  for (const MachineGroup& group : description.machines) list.push_back(group.device);
  return list;
}

TEST(MachineOrder, IsThatOfSpeedAndMemoryHoweverMachinesAreListed) {
  for (const char* line :
       {"1x4xp100+1x4xv100-16g+1x4xv100-32g;ib=25Gb", "1x4xv100-32g+1x4xp100+1x4xv100-16g;ib=25Gb"})
    EXPECT_THAT(devices_of(in_canonical_order(parse_cluster_line(line).description())),
                ElementsAre("v100-32g", "v100-16g", "p100"))
        << line;
}

TEST(MachineOrder, PutsMachinesOfManyDevicesFirst) {
  const ClusterDescription ordered =
      in_canonical_order(parse_cluster_line("1x2xv100-16g+1x4xv100-16g;ib=25Gb").description());
  EXPECT_EQ(ordered.machines.at(0).devices, 4);
}

TEST(MachineOrder, LeavesNamesWithTheirMachines) {
  const ClusterDescription given =
      parse_cluster_line("1x4xp100+1x4xv100-16g;ib=25Gb").description();
  const ClusterDescription ordered = in_canonical_order(given);
  EXPECT_EQ(ordered.machines.at(0), given.machines.at(1));
  EXPECT_EQ(ordered.machines.at(1), given.machines.at(0));
}

TEST(MachineOrder, OfLikeMachinesIsTheirs) {
  const ClusterDescription given = parse_cluster_line("4x8xa100-80g;ib=200Gb").description();
  EXPECT_EQ(in_canonical_order(given), given);
}

// Switches join neighbours.
TEST(MachineOrder, IsLeftWhereSwitchesJoinSomeMachines) {
  ClusterDescription given = parse_cluster_line("1x4xp100+1x4xv100-16g;ib=25Gb").description();
  NetworkLevel pairs = given.network.at(0);
  pairs.switch_of_child = {0, 1};
  given.network.insert(given.network.begin(), pairs);
  EXPECT_EQ(in_canonical_order(given), given);
}

}  // namespace
}  // namespace tessera
