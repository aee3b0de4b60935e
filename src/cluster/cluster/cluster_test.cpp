#include "cluster/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LinkLevel links(const std::string& name, double gigabytes_per_second, int ports = 1) {
  return {name, {Seconds(1e-6), gigabytes_per_second * 1e9}, LinkSharing::kSwitch, ports};
}

DeviceType type_of(const std::string& name) {
  return {name, HardwareKind::kGpu, Bytes(16'000'000'000), Bytes(0), {}, ""};
}

/// Machines n0, n1, ... of four devices; two machines have a switch, and two switches a spine.
ClusterDescription tree_of_machines(int machines) {
  ClusterDescription cluster{
      "", {type_of("gpu")}, {{{}, "gpu", 4, 0, {{links("nvlink", 300), 0}}, {}}}, {}, {}};
  for (int i = 0; i < machines; ++i) cluster.machines[0].names.push_back("n" + std::to_string(i));
  NetworkLevel leaf{links("leaf", 25, 2), 0, {}}, spine{links("spine", 40), 0, {}};
  for (int i = 0; i < machines; ++i) leaf.switch_of_child.push_back(i / 2);
  for (int i = 0; i < (machines + 1) / 2; ++i) spine.switch_of_child.push_back(0);
  cluster.network = {leaf, spine};
  return cluster;
}

std::vector<std::string> names_of_path(const Cluster& cluster, DeviceId from, DeviceId to) {
  std::vector<std::string> names;
  for (ChannelId channel : cluster.path(from, to))
    names.push_back(cluster.channels()[channel].name);
  return names;
}

std::string cluster_refusal(ClusterDescription description) {
  return error_testing::message_of(ExitCode::kBadConfig,
                                   [&] { const Cluster cluster(std::move(description)); });
}

TEST(Cluster, AMessagePassesThePortsOfTheSmallestGroupAndOfTheNetworkBelowIt) {
  const Cluster cluster(tree_of_machines(4));
  EXPECT_EQ(cluster.device_count(), 16);
  EXPECT_EQ(cluster.name(7), "n1/3");
  EXPECT_THAT(names_of_path(cluster, 0, 1), ElementsAre("n0/0 nvlink out", "n0/1 nvlink in"));
  EXPECT_THAT(names_of_path(cluster, 0, 4), ElementsAre("n0 leaf port 0 out", "n1 leaf port 0 in"))
      << "what leaves a machine is no traffic of its NVLink";
  EXPECT_THAT(names_of_path(cluster, 4, 12), ElementsAre("n1 leaf port 0 out", "leaf0 spine out",
                                                         "leaf1 spine in", "n3 leaf port 0 in"));
  EXPECT_THAT(names_of_path(cluster, 3, 3), ElementsAre());
}

TEST(Cluster, ADeviceUsesItsOwnPartOfThePortsOfItsMachine) {
  ClusterDescription description = tree_of_machines(2);  // of four devices
  description.network[0].level.ports = 2;
  const auto port_of = [&](int ports, DeviceId device) {
    description.network[0].level.ports = ports;
    return names_of_path(Cluster(description), device, 4).front();
  };
  EXPECT_EQ(port_of(2, 0), "n0 leaf port 0 out");
  EXPECT_EQ(port_of(2, 1), "n0 leaf port 0 out") << "two neighbours share one";
  EXPECT_EQ(port_of(2, 2), "n0 leaf port 1 out");
  EXPECT_EQ(port_of(4, 3), "n0 leaf port 3 out");
  EXPECT_EQ(port_of(1, 3), "n0 leaf out");
  EXPECT_EQ(port_of(8, 3), "n0 leaf port 3 out");
  EXPECT_EQ(Cluster(description).link(0, 4).bytes_per_second, 2 * 25e9) << "two of eight ports";
}

TEST(Cluster, TheBandwidthOfAMessageIsThatOfTheSlowestPortOnItsPath) {
  const Cluster cluster(tree_of_machines(4));
  EXPECT_EQ(cluster.link(0, 1).bytes_per_second, 300e9);
  EXPECT_EQ(cluster.link(0, 4).bytes_per_second, 25e9) << "one of two ports";
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 25e9);
  EXPECT_EQ(cluster.level(0, 8), "spine");
}

TEST(Cluster, AnOversubscribedSpineCarriesAPartOfWhatTheMachinesCanSend) {
  ClusterDescription description = tree_of_machines(4);
  description.network[1].oversubscription = 4;
  const Cluster cluster(description);
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 2 * 50e9 / 4);
  description.network.erase(description.network.begin());
  description.network[0].switch_of_child = {0, 0, 0, 0};
  EXPECT_THAT(cluster_refusal(description),
              HasSubstr("have an oversubscription and join machines"));
}

TEST(Cluster, ABusIsSharedAndAMeshHasALinkForEachTwo) {
  ClusterDescription description = tree_of_machines(2);
  description.network[1].switch_of_child = {0};
  LinkLevel& inner = description.machines[0].levels[0].level;
  inner.sharing = LinkSharing::kBus;
  EXPECT_THAT(names_of_path(Cluster(description), 0, 2), ElementsAre("n0 nvlink"));
  EXPECT_THAT(names_of_path(Cluster(description), 1, 3), ElementsAre("n0 nvlink"));
  inner.sharing = LinkSharing::kMesh;
  EXPECT_THAT(names_of_path(Cluster(description), 0, 2), ElementsAre("n0/0 nvlink to n0/2"));
  EXPECT_THAT(names_of_path(Cluster(description), 3, 2), ElementsAre("n0/3 nvlink to n0/2"));
}

TEST(Cluster, ADirectLinkReplacesThePathOfTwoDevices) {
  ClusterDescription description = tree_of_machines(2);
  description.network[1].switch_of_child = {0};
  description.machines[0].direct = {{3, 0, {Seconds(2e-6), 50e9}}};
  description.direct = {{0, 4, {Seconds(3e-6), 1e9}}};
  const Cluster cluster(description);
  EXPECT_THAT(names_of_path(cluster, 4, 7), ElementsAre("n1/0 to n1/3"));
  EXPECT_THAT(names_of_path(cluster, 7, 4), ElementsAre("n1/3 to n1/0"));
  EXPECT_THAT(names_of_path(cluster, 0, 4), ElementsAre("n0/0 to n1/0"));
  EXPECT_EQ(cluster.link(4, 0), (LinkCost{Seconds(3e-6), 1e9}));
  EXPECT_EQ(cluster.level(0, 3), "direct");
}

TEST(Cluster, GroupsInsideAMachineAreJoinedFromTheInsideOut) {
  ClusterDescription description = tree_of_machines(1);
  description.network.clear();
  description.machines[0].levels = {{links("pair", 100), 2}, {links("socket", 20), 0}};
  const Cluster cluster(description);
  EXPECT_EQ(cluster.level(0, 1), "pair");
  EXPECT_EQ(cluster.level(1, 2), "socket");
  EXPECT_THAT(names_of_path(cluster, 1, 2),
              ElementsAre("n0/pair0 socket out", "n0/pair1 socket in"));
}

TEST(Cluster, EachTypeOfDeviceIsAGroup) {
  ClusterDescription description = tree_of_machines(2);
  description.types.push_back(type_of("npu"));
  description.machines.push_back({{"m"}, "npu", 2, 0, {{links("hccs", 30), 0}}, {}});
  description.network = {{links("ib", 25), 0, {0, 0, 0}}};
  const Cluster cluster(description);
  ASSERT_EQ(cluster.groups().size(), 2);
  EXPECT_EQ(cluster.groups()[0].devices.size(), 8);
  EXPECT_THAT(cluster.groups()[1].devices, ElementsAre(8, 9));
  EXPECT_EQ(cluster.groups()[1].type, "npu");
}

TEST(Cluster, LikeMachinesAreADeviceMesh) {
  ClusterDescription description = tree_of_machines(2);
  MachineGroup more = description.machines[0], halves = more, others = more;
  more.names = {"m0"};  // like n0 and n1, though behind another group
  halves.names = {"h0"};
  halves.devices = 2;
  others.names = {"o0"};
  others.levels[0].level = links("pcie", 12);
  description.machines.insert(description.machines.end(), {halves, more, others});
  description.network = {{links("ib", 25), 0, {0, 0, 0, 0, 0}}};
  const std::vector<DeviceMesh> meshes = Cluster(description).device_meshes();
  ASSERT_EQ(meshes.size(), 3);
  EXPECT_THAT(meshes[0].machines, ElementsAre(0, 1, 3));
  EXPECT_EQ(meshes[0].devices_per_machine, 4);
  EXPECT_THAT(meshes[0].devices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13));
  EXPECT_THAT(meshes[1].devices, ElementsAre(8, 9));
  EXPECT_THAT(meshes[2].devices, ElementsAre(14, 15, 16, 17));
}

TEST(Cluster, ABusOverUnlikeChildrenHasTheRateOfEachOfThem) {
  // leaf0 has two machines, leaf1 one: together they send 100 and 50 GB/s.
  ClusterDescription description = tree_of_machines(3);
  description.network[1].level.sharing = LinkSharing::kBus;
  description.network[1].oversubscription = 2;
  const Cluster cluster(description);
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 25e9) << "what leaf1 sends, over 2";
  EXPECT_EQ(cluster.link(8, 0).bytes_per_second, 25e9);
  EXPECT_THAT(names_of_path(cluster, 0, 8),
              ElementsAre("n0 leaf port 0 out", "spine0 spine", "leaf0 spine", "leaf1 spine",
                          "n2 leaf port 0 in"));
}

TEST(Cluster, ABusOverThreeUnlikeChildrenCarriesTheirTrafficTogether) {
  // The leaves have 2, 2 and 1 machines of 50 GB/s: 100, 100 and 50 GB/s.
  ClusterDescription description = tree_of_machines(5);
  description.network[1].level.sharing = LinkSharing::kBus;
  description.network[1].oversubscription = 1;
  const Cluster cluster(description);
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 25e9) << "the port of a device";
  const ChannelId bus = cluster.path(0, 8)[1];
  EXPECT_EQ(cluster.channels()[bus].bytes_per_second, 100e9);
  EXPECT_EQ(cluster.path(8, 16)[1], bus) << "other children share it";
}

TEST(Cluster, WhatIsNoClusterIsRefused) {
  const auto changed = [](const auto& change) {
    ClusterDescription description = tree_of_machines(4);
    change(description);
    return cluster_refusal(description);
  };
  EXPECT_THAT(changed([](auto& d) { d.machines.clear(); }), HasSubstr("has no devices"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].device = "gpus"; }),
              HasSubstr("fix: name the type 'gpu'"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].names[3] = "n0"; }),
              HasSubstr("two machines are called 'n0'"));
  EXPECT_THAT(changed([](auto& d) { d.types[0].reserve = d.types[0].memory; }),
              HasSubstr("nothing is left for a model"));
  EXPECT_THAT(changed([](auto& d) { d.types.push_back(d.types[0]); }),
              HasSubstr("two device types are called 'gpu'"));
  EXPECT_THAT(changed([](auto& d) { d.network.pop_back(); }),
              HasSubstr("leaves 2 parts of the cluster"));
  EXPECT_THAT(changed([](auto& d) { d.network[0].level.link.bytes_per_second = 0; }),
              HasSubstr("the links 'leaf' have no bandwidth"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].levels[0].size = 3; }),
              HasSubstr("the links 'nvlink' of machine 'n0' join 3 of 4"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].levels[0].size = 2; }),
              HasSubstr("leave 2 parts that nothing joins"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].levels.clear(); }),
              HasSubstr("has 4 devices without links"));
  EXPECT_THAT(changed([](auto& d) { d.machines[0].direct = {{0, 4, {Seconds(0), 1e9}}}; }),
              HasSubstr("it has 4 devices, numbered from 0"));
  EXPECT_THAT(changed([](auto& d) { d.direct = {{2, 2, {Seconds(0), 1e9}}}; }),
              HasSubstr("these are the same device"));
  EXPECT_THAT(changed([](auto& d) { d.direct = {{0, 9, {Seconds(0), 0}}}; }),
              HasSubstr("the link between n0/0 and n2/1 has no bandwidth"));
  EXPECT_THAT(
      changed([](auto& d) { d.direct = {{0, 9, {Seconds(0), 1e9}}, {9, 0, {Seconds(0), 1e9}}}; }),
      HasSubstr("two links are between n0/0 and n2/1"));
}

}  // namespace
}  // namespace tessera
