#include "throttled_ranks.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "simulator/step/step_prediction.h"

namespace tessera {
namespace {

/// y = (x + x) with rows that two ranks divide and gather, on devices of a level of links.
std::shared_ptr<const TaskGraph> gathered(int ranks) {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input("x", {DType::kF32, {1 << 10}});
  x = builder.mul_scalar(x, 2.0, "divided");
  x = builder.mul_scalar(x, 1.0, "whole");
  graph.add_output("y", x);
  const auto mesh = std::make_shared<const Mesh>(Shape{ranks}, std::vector<std::string>{"r"});
  return std::make_shared<const TaskGraph>(
      compile(graph, mesh, {shard_op("divided", "[P(\"r\")]"), shard_op("whole", "[P()]")}).tasks);
}

Cluster slow(int devices, const std::string& sharing, const std::string& rate) {
  return parse_cluster(parse_toml(R"(
[device.slow]
kind = "npu"
memory = "1 GB"
rates = {arithmetic = "1 Gflop/s", memory = ")" +
                                      rate + R"(", copies = "1000 TB/s", launch = "0 s"}
[[machine]]
count = 1
device = "slow"
devices = )" + std::to_string(devices) +
                                      R"(
links = [{name = "link", bandwidth = "100 kB/s", latency = "1 ms", sharing = ")" +
                                      sharing + R"("}]
)",
                                  "slow.toml"),
                       "slow.toml");
}

/// A step is never shorter than what it takes on the cluster, however busy this machine is.
void expect_not_shorter(const std::shared_ptr<const TaskGraph>& graph, const Cluster& cluster,
                        int ranks, double smallest) {
  const Deployment deployment = identity_mapping(cluster, ranks);
  const double predicted =
      predict_step(graph, deployment, {.prefetch_exchanges = false}).step.value();
  EXPECT_GE(predicted, smallest);
  EXPECT_GE(throttled_step(graph, deployment, {}, 2).value(), predicted - 1e-9);
}

TEST(ThrottledRanks, KernelsTakeAtLeastTheirPrice) {
  // Two kernels that each read and write 4 KiB, at 1 MB/s: 16.4 ms.
  expect_not_shorter(gathered(1), slow(2, "switch", "1 MB/s"), 1, 0.0163);
}

TEST(ThrottledRanks, ExchangesTakeAtLeastTheTimeOfTheirLinks) {
  // Each of two ranks receives 2 KiB at 100 kB/s: 20.5 ms and the latency.
  expect_not_shorter(gathered(2), slow(2, "switch", "1000 TB/s"), 2, 0.0214);
}

TEST(ThrottledRanks, FlowsShareTheirLinks) {
  // Four ranks receive 3 KiB each, all over one bus of 100 kB/s: 123 ms.
  expect_not_shorter(gathered(4), slow(4, "bus", "1000 TB/s"), 4, 0.123);
}

TEST(ThrottledRanks, DoNotChangeResults) {
  const auto graph = gathered(2);
  const Cluster cluster = slow(2, "switch", "10 MB/s");
  RuntimeOptions options;
  options.delay = std::make_shared<ThrottledRanks>(*graph, identity_mapping(cluster, 2),
                                                   ThrottleOptions{.slowness = {2, 3}});
  Runtime runtime(std::vector<Rank>{0, 1}, options);
  LoadedProgram& program = runtime.load(graph);
  Tensor x({DType::kF32, {1 << 10}});
  for (size_t i = 0; i < x.values<float>().size(); ++i)
    x.values<float>()[i] = static_cast<float>(i);
  TensorMap results;
  runtime.run(program, {{"x", &x}}, results);
  for (size_t i = 0; i < x.values<float>().size(); ++i)
    ASSERT_EQ(results.at("y").values<float>()[i], 2 * static_cast<float>(i));
}

TEST(ThrottledCluster, HasATypeForEachSpeed) {
  DeviceType base;
  base.memory = Bytes(1 << 30);
  base.cost.launch = Seconds(1e-6);
  const Cluster cluster(throttled_cluster(base, {8, 16, 8}, {"network", {Seconds(1e-3), 1e6}}));
  EXPECT_EQ(cluster.device_count(), 3);
  EXPECT_EQ(cluster.description().types.size(), 2);
  LocalWork work;
  work.flops = Flops(1'000'000);
  const double once = compute_price(work, base.cost).estimate.value();
  EXPECT_NEAR(compute_price(work, cluster.type(1).cost).estimate.value(), 16 * once, 1e-12);
  EXPECT_NEAR(compute_price(work, cluster.type(2).cost).estimate.value(), 8 * once, 1e-12);
  EXPECT_NEAR(cluster.link(0, 2).latency.value(), 1e-3, 1e-12);
}

}  // namespace
}  // namespace tessera
