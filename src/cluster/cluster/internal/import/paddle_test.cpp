#include "cluster/cluster/internal/import/paddle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "cluster/cluster/cluster.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

ClusterDescription parsed_paddle(std::string_view text) {
  return parse_paddle_cluster(parse_json(text, "cluster.json"), "cluster.json");
}

std::string paddle_refusal(std::string_view text) {
  return error_testing::message_of(ExitCode::kBadConfig, [&] { parsed_paddle(text); });
}

std::string gpu(int id, const std::string& memory = "\"32\"") {
  return R"({"global_id": )" + std::to_string(id) + R"(, "local_id": )" + std::to_string(id % 2) +
         R"(, "type": "GPU", "model": " Tesla V100-SXM2-32GB", "memory": )" + memory +
         R"(, "sp_gflops": "15700", "dp_gflops": "7800"})";
}
std::string link(int from, int to, const std::string& bandwidth) {
  return R"({"source_global_id": )" + std::to_string(from) + R"(, "target_global_id": )" +
         std::to_string(to) + R"(, "type": "NVL", "bandwidth": )" + bandwidth + "}";
}
std::string machine(const std::string& name, const std::string& devices, const std::string& links) {
  return R"({"hostname": ")" + name + R"(", "addr": "10.0.0.1", "port": "60009", "devices": [)" +
         devices + R"(], "links": [)" + links + "]}";
}
std::string paddle_cluster_of(const std::string& machines) {
  return R"({"alpha_latency": {"inter": {"ring": 12.5, "tree": "NET"},
    "intra": {"ring": "NVL", "tree": "PHB"}, "base": {"ring": 8.4, "tree": 0}, "switch": 10.0},
    "machines": [)" +
         machines + "]}";
}

/// Two machines with two GPUs, a CPU and a network card of 12.5 GB/s each.
std::string two_machines() {
  const auto one = [](const std::string& name, int first) {
    const std::string cpu = std::to_string(first + 2), nic = std::to_string(first + 3);
    return machine(
        name,
        gpu(first) + "," + gpu(first + 1) + R"(, {"global_id": )" + cpu +
            R"(, "type": "CPU", "model": "Xeon Gold 6148", "memory": "502", "sp_gflops": "150"},
               {"global_id": )" +
            nic + R"(, "type": "NIC", "width": 12.5, "ip": "10.0.0.1"})",
        link(first, first + 1, "235.0") + "," + link(first + 1, first, "235.0") + "," +
            link(first, first + 2, "24.0"));
  };
  return paddle_cluster_of(one("yq01-a225", 0) + "," + one("yq01-a226", 4));
}

TEST(PaddleCluster, HasMachinesOfAcceleratorsAndTheirLinks) {
  const Cluster cluster(parsed_paddle(two_machines()));
  ASSERT_EQ(cluster.device_count(), 4);
  ASSERT_EQ(cluster.machine_count(), 2);
  EXPECT_EQ(cluster.machine_name(1), "yq01-a226");
  EXPECT_EQ(cluster.type(0).name, "Tesla V100-SXM2-32GB");
  EXPECT_EQ(cluster.type(0).kind, HardwareKind::kGpu);
  EXPECT_EQ(cluster.type(0).memory, Bytes(32'000'000'000));
  EXPECT_EQ(cluster.type(0).cost.flops_per_second, 15700e9);
  EXPECT_EQ(cluster.link(0, 1).bytes_per_second, 235e9);
  EXPECT_EQ(cluster.level(0, 1), "nvl");
  EXPECT_EQ(cluster.link(0, 2), (LinkCost{Seconds(12.5e-6), 12.5e9}));
  EXPECT_THAT(cluster.description().assumed, Contains(HasSubstr("is as of v100-32g")));
}

TEST(PaddleCluster, FasterPairsHaveDirectLinks) {
  const Cluster cluster(parsed_paddle(paddle_cluster_of(
      machine("a", gpu(0) + "," + gpu(1) + "," + gpu(2),
              link(0, 1, "48") + "," + link(0, 2, "24") + "," + link(1, 2, "\"24\"")))));
  EXPECT_EQ(cluster.link(0, 1).bytes_per_second, 48e9);
  EXPECT_EQ(cluster.level(0, 1), "direct");
  EXPECT_EQ(cluster.link(2, 1).bytes_per_second, 24e9);
}

TEST(PaddleCluster, OfCpusOnlyHasCpusAsDevices) {
  const Cluster cluster(parsed_paddle(paddle_cluster_of(
      machine("a", R"({"global_id": 0, "type": "CPU", "memory": 100, "sp_gflops": 150})", ""))));
  EXPECT_EQ(cluster.type(0).kind, HardwareKind::kCpu);
  EXPECT_EQ(cluster.type(0).memory, Bytes(100'000'000'000));
}

TEST(PaddleCluster, DevicesOfUnlikeMemoriesAreTypesOfOneModel) {
  const Cluster cluster(parsed_paddle(paddle_cluster_of(
      machine("a", gpu(0) + R"(, {"global_id": 9, "type": "NIC", "width": 12.5})", "") + "," +
      machine("b", gpu(1, "16") + R"(, {"global_id": 10, "type": "NIC", "width": 25})", "") + "," +
      machine("c", gpu(2, "16") + R"(, {"global_id": 11, "type": "NIC", "width": 25})", ""))));
  EXPECT_EQ(cluster.type(0).name, "Tesla V100-SXM2-32GB");
  EXPECT_EQ(cluster.type(1).name, "Tesla V100-SXM2-32GB 2");
  EXPECT_EQ(cluster.type(2).name, "Tesla V100-SXM2-32GB 2");
  EXPECT_EQ(cluster.link(1, 2).bytes_per_second, 12.5e9) << "the slowest card";
}

TEST(PaddleCluster, WrongValuesAreRefusedWithTheirPath) {
  const auto of_one = [](const std::string& devices, const std::string& links) {
    return paddle_refusal(paddle_cluster_of(machine("a", devices, links)));
  };
  EXPECT_EQ(of_one(gpu(0), ""), "nothing was thrown");
  EXPECT_THAT(of_one(gpu(0, "-32"), ""),
              AllOf(HasSubstr("cluster.json: machines[0].devices[0].memory is -32"),
                    HasSubstr("a number above 0")));
  EXPECT_THAT(of_one(gpu(0, "\"32 GB\""), ""), HasSubstr("devices[0].memory is \"32 GB\""));
  EXPECT_THAT(of_one(gpu(0) + "," + gpu(0), ""),
              AllOf(HasSubstr("machines[0].devices[1].global_id is 0"),
                    HasSubstr("machines[0].devices[0] has the same number")));
  EXPECT_THAT(of_one(gpu(-1), ""), HasSubstr("numbered from 0"));
  EXPECT_THAT(of_one(gpu(0) + "," + gpu(1), ""), HasSubstr("2 devices without links"));
  const std::string two = gpu(0) + "," + gpu(1);
  EXPECT_THAT(of_one(two, link(0, 1, "0.0")), HasSubstr("machines[0].links[0].bandwidth is 0"));
  EXPECT_THAT(of_one(two, link(0, 9, "24")), HasSubstr("links[0].target_global_id is 9"));
  EXPECT_THAT(of_one(two, link(0, 0, "24")), HasSubstr("to itself"));
  EXPECT_THAT(of_one(two, link(0, 1, "24") + "," + link(1, 0, "48")),
              HasSubstr("different bandwidths in the two directions"));
  EXPECT_THAT(of_one(two, link(0, 1, "24") + "," + link(0, 1, "24")), HasSubstr("a second link"));
  EXPECT_THAT(
      paddle_refusal(paddle_cluster_of(machine("a", gpu(0), "") + "," + machine("a", gpu(1), ""))),
      AllOf(HasSubstr("machines[1] is called 'a'"), HasSubstr("machines[0] has the same")));
  EXPECT_THAT(
      paddle_refusal(paddle_cluster_of(machine("a", gpu(0), "") + "," + machine("b", gpu(1), ""))),
      HasSubstr("nothing joins the machines"));
  EXPECT_THAT(paddle_refusal(R"({"machines": [{"devices": 3}]})"),
              HasSubstr("machines[0].devices is"));
}

TEST(PaddleCluster, IsToldByItsMachines) {
  EXPECT_TRUE(is_paddle_cluster(parse_json(two_machines(), "c")));
  EXPECT_FALSE(is_paddle_cluster(parse_json(R"({"machine": [{"count": 1}]})", "c")));
  EXPECT_FALSE(is_paddle_cluster(parse_json(R"({"machines": []})", "c")));
}

}  // namespace
}  // namespace tessera
