#include "simulator/step/deployment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

MeshPtr placed_mesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> ranks = {}) {
  return std::make_shared<const Mesh>(std::move(shape), std::move(axes), std::move(ranks));
}

CostModel cost_on(const Cluster& cluster, const std::vector<MeshPtr>& meshes, int ranks) {
  return cost_of(identity_mapping(cluster, ranks), meshes);
}

TEST(Deployment, HasADeviceForEachRank) {
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  EXPECT_EQ(identity_mapping(cluster, 8).device(7), 7);
  EXPECT_THROW(identity_mapping(cluster, 9), UserError);
}

TEST(Deployment, RanksShareTheCoresOfACpu) {
  const Cluster cluster = parse_cluster_line("cpu:2");
  EXPECT_THAT(identity_mapping(cluster, 5).device_of_rank, testing::ElementsAre(0, 1, 0, 1, 0));
}

TEST(Deployment, RanksThatNeedDevicesHaveThemBeforeOthersChoose) {
  // Devices 0 to 3 are v100, 4 to 7 p100, and all are GPUs.
  const Cluster cluster = parse_cluster_line("4xv100+4xp100");
  const std::vector<std::string> hardware{"", "p100", "gpu", "p100", "v100-16g"};
  EXPECT_THAT(identity_mapping(cluster, hardware).device_of_rank,
              testing::ElementsAre(2, 4, 1, 5, 0))
      << "types first, then kinds, then the rest";
}

TEST(Deployment, DevicesThatAreNotThereAreRefused) {
  const Cluster cluster = parse_cluster_line("4xv100+2xp100");
  const auto refusal = [&](const std::vector<std::string>& hardware) -> std::string {
    try {
      identity_mapping(cluster, hardware);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({"p100", "p100", "v100-16g"}), "accepted");
  EXPECT_THAT(
      refusal({"p100", "p100", "p100"}),
      testing::AllOf(testing::HasSubstr("the plan needs 'p100' for 3 ranks, and the cluster "
                                        "has 2 such devices"),
                     testing::HasSubstr("4 x v100-16g (gpu), 2 x p100 (gpu)")));
  EXPECT_THAT(refusal({"npu"}), testing::HasSubstr("has 0 such devices"));
}

TEST(Deployment, RanksThatNeedCoresShareThem) {
  const Cluster cluster = parse_cluster_line("cpu:2");
  const std::vector<std::string> hardware(5, "cpu");
  EXPECT_THAT(identity_mapping(cluster, hardware).device_of_rank,
              testing::ElementsAre(0, 1, 0, 1, 0));
}

/// Two racks of two machines with four devices each.
ClusterDescription two_racks() {
  ClusterDescription description = parse_cluster_line("4x4xa100-80g;ib=200Gb").description();
  NetworkLevel rack = description.network.front(), spine = rack;
  rack.level.name = "rack";
  rack.switch_of_child = {0, 0, 1, 1};
  spine.level.name = "spine";
  spine.switch_of_child = {0, 0};
  description.network = {rack, spine};
  return description;
}

TEST(CostOfADeployment, TheLinkOfAnAxisIsThatOfItsRings) {
  // Two machines of four devices: 300 GB/s inside, two ports of 25 GB/s between them.
  const Cluster cluster = parse_cluster_line("2x4xa100-80g;ib=2x25GB");
  const CostModel inner = cost_on(cluster, {placed_mesh({2, 4}, {"dp", "tp"})}, 8);
  EXPECT_EQ(inner.links.axes.at("tp").bytes_per_second, 300e9);
  EXPECT_EQ(inner.links.axes.at("dp").bytes_per_second, 50e9 / 4)
      << "four rings of dp share the ports of a machine";
  EXPECT_EQ(inner.links.any, inner.links.axes.at("dp")) << "the slowest";
  const CostModel outer = cost_on(cluster, {placed_mesh({4, 2}, {"dp", "tp"})}, 8);
  EXPECT_EQ(outer.links.axes.at("tp").bytes_per_second, 300e9);
  EXPECT_EQ(outer.links.axes.at("dp_ib").bytes_per_second, 25e9 / 2)
      << "two neighbours share a port";
  EXPECT_EQ(outer.links.axes.at("dp_ib").latency, Seconds(5e-6));
}

TEST(CostOfADeployment, AnAxisOverMachinesHasTheLevelsOfItsNeighbours) {
  const Cluster cluster = parse_cluster_line("4x8xa100-80g;ib=200Gb");
  const LinkCosts links = cost_on(cluster, {placed_mesh({16, 2}, {"dp", "tp"})}, 32).links;
  EXPECT_FALSE(links.levels.contains("tp")) << "in a machine";
  EXPECT_EQ(links.levels.at("dp"), (std::vector<AxisLevel>{{"dp_ib", 4}, {"dp_nvlink", 4}}));
  EXPECT_EQ(links.axes.at("dp_ib"), (LinkCost{Seconds(5e-6), 25e9}));
  EXPECT_EQ(links.axes.at("dp_nvlink"), (LinkCost{Seconds(2e-6), 300e9}));
  // A gather of B bytes: 3/4 of B/4 through the port of each device, then 3/4 of B inside.
  const LinkCost all = links.axes.at("dp");
  EXPECT_NEAR(15.0 / 16 / all.bytes_per_second, 0.75 / 4 / 25e9 + 0.75 / 300e9, 1e-15);
  EXPECT_NEAR(15 * all.latency.value(), 3 * 5e-6 + 3 * 2e-6, 1e-12);
  EXPECT_TRUE(cost_on(cluster, {placed_mesh({8}, {"dp"})}, 8).links.levels.empty());
  const LinkCosts across = cost_on(cluster, {placed_mesh({4, 8}, {"dp", "tp"})}, 32).links;
  EXPECT_TRUE(across.levels.empty()) << "dp has one rank in each machine";
}

TEST(CostOfADeployment, AnAxisThatEntersAMachineTwiceIsOne) {
  const Cluster cluster = parse_cluster_line("2x2xa100-80g;ib=200Gb");
  const MeshPtr mesh = std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"dp"},
                                                    std::vector<Rank>{0, 2, 1, 3});
  EXPECT_TRUE(cost_of(identity_mapping(cluster, 4), std::vector{mesh}).links.levels.empty());
}

TEST(CostOfADeployment, LevelsOfTheNetworkAreLevelsOfAnAxis) {
  const Cluster cluster(two_racks());
  const LinkCosts links = cost_on(cluster, {placed_mesh({16}, {"dp"})}, 16).links;
  EXPECT_EQ(links.levels.at("dp"),
            (std::vector<AxisLevel>{{"dp_spine", 2}, {"dp_rack", 2}, {"dp_nvlink", 4}}));
}

TEST(CostOfADeployment, OneBadPairSlowsItsAxis) {
  const Cluster cluster = parse_cluster_line("8xv100");
  const CostModel cost = cost_on(cluster, {placed_mesh({8}, {"dp"})}, 8);
  EXPECT_EQ(cost.links.axes.at("dp").bytes_per_second, 12e9)
      << "the ring 0 .. 7 passes pairs that only PCIe joins";
  const CostModel near = cost_on(cluster, {placed_mesh({2}, {"tp"}, {0, 3})}, 8);
  EXPECT_EQ(near.links.axes.at("tp").bytes_per_second, 50e9);
}

TEST(CostOfADeployment, TheSlowestDeviceCounts) {
  const Cluster cluster = parse_cluster_line("1x1xv100+1x1xp100");
  const CostModel cost = cost_on(cluster, {placed_mesh({2}, {"dp"})}, 2);
  const DeviceCost &v100 = cluster.type(0).cost, &p100 = cluster.type(1).cost;
  EXPECT_EQ(cost.device.flops_rate(OperationClass::kMatmul, DType::kF16),
            p100.flops_rate(OperationClass::kMatmul, DType::kF16));
  EXPECT_EQ(cost.device.memory_rate(OperationClass::kElementwise),
            std::min(v100.bytes_per_second, p100.bytes_per_second));
}

TEST(CostOfADeployment, StagesOnDifferentMachinesMeetTheNetwork) {
  const Cluster cluster = parse_cluster_line("2x2xa100-80g;ib=1x10GB");
  const CostModel cost =
      cost_on(cluster, {placed_mesh({2}, {"tp"}, {0, 1}), placed_mesh({2}, {"tp"}, {2, 3})}, 4);
  EXPECT_EQ(cost.links.axes.at("tp").bytes_per_second, 300e9);
  EXPECT_EQ(cost.links.any.bytes_per_second, 10e9 / 2) << "both ranks of a stage send at once";
}

TEST(Deployment, AMappingGivesRanksTheDevicesThatTheyNeed) {
  const Cluster cluster = parse_cluster_line("1x2xv100+1x2xp100");
  const std::vector<std::string> names{cluster.name(0), cluster.name(2)};
  const Deployment deployment = on_named_devices(cluster, names);
  const std::vector<std::string> kind{"npu", ""};
  const std::string type = cluster.type(0).name;
  EXPECT_NO_THROW(check_hardware(deployment, std::vector<std::string>{type, "gpu"}));
  EXPECT_NO_THROW(check_hardware(deployment, std::vector<std::string>{"", ""}));
  EXPECT_THROW(check_hardware(deployment, std::vector<std::string>{"", type}), UserError);
  EXPECT_THROW(check_hardware(deployment, kind), UserError);
}

}  // namespace
}  // namespace tessera
