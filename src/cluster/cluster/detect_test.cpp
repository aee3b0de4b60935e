#include "cluster/cluster/detect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DetectMachine, IsAClusterOfTheCoresOfThisProcess) {
  const Cluster cluster(detect_machine());
  EXPECT_GE(cluster.device_count(), 1);
  EXPECT_EQ(cluster.machine_count(), 1);
  EXPECT_EQ(cluster.type(0).kind, HardwareKind::kCpu);
  EXPECT_GT(cluster.type(0).memory, Bytes(1 << 20));
  const Document document = to_document(cluster.description());
  EXPECT_EQ(parse_cluster(parse_toml(to_toml(document), "m.toml"), "m.toml").description(),
            cluster.description());
  EXPECT_EQ(tessera::cluster_of("detect").description(), cluster.description());
}

TEST(DetectHardware, FindsPackagesNumaNodesCoresAndThreads) {
  const Hardware hardware = detect_hardware("pack:2 [numa(memory=8589934592)] core:4 pu:2");
  EXPECT_EQ(hardware.packages, 2);
  EXPECT_EQ(hardware.cores, 8);
  EXPECT_EQ(hardware.threads, 16);
  EXPECT_THAT(hardware.cores_of_node, ElementsAre(4, 4));
  EXPECT_EQ(hardware.memory, Bytes(2 * 8589934592));
  EXPECT_THROW(detect_hardware("pack:0 apples"), UserError);
}

TEST(DetectHardware, AMachineWithoutPackagesIsOne) {
  const Hardware hardware = detect_hardware("pu:3");
  EXPECT_EQ(hardware.packages, 1);
  EXPECT_EQ(hardware.cores, 3);
}

TEST(MachineOfHardware, NumaNodesAreALevel) {
  const Hardware hardware{2, 8, 16, {4, 4}, 2.1, Bytes(16'000'000'000)};
  const Cluster cluster(machine_of(hardware, "host"));
  EXPECT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(cluster.type(0).memory, Bytes(2'000'000'000)) << "a core has its part";
  EXPECT_EQ(cluster.level(0, 3), "memory");
  EXPECT_EQ(cluster.level(0, 4), "numa");
  const LinkCost inside = cluster.link(0, 3), between = cluster.link(0, 4);
  EXPECT_DOUBLE_EQ(between.latency.value(), 2.1 * inside.latency.value());
  EXPECT_THAT(cluster.description().assumed, Contains(HasSubstr("1/2.1 of the rate inside")));
}

TEST(MachineOfHardware, NodesOfUnlikeNumbersOfCoresAreNoLevel) {
  const Hardware hardware{1, 6, 6, {4, 2}, 2, Bytes(6'000'000'000)};
  const Cluster cluster(machine_of(hardware, "host"));
  EXPECT_EQ(cluster.level(0, 5), "memory");
  EXPECT_THAT(cluster.description().assumed, Contains(HasSubstr("numbers of cores differ")));
}

}  // namespace
}  // namespace tessera
