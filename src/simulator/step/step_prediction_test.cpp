#include "simulator/step/step_prediction.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"
#include "simulator/step/act_demands.h"
#include "simulator/step/testing/plain_devices.h"
#include "simulator/step/testing/product.h"

namespace tessera {
namespace {

/// y = x w with 1000 rows, 500 inner elements and 400 columns.
StepPrediction step_prediction_predicted(const Graph& graph, const MeshPtr& mesh,
                                         const std::vector<Mark>& marks, const Cluster& cluster) {
  Compiled compiled = compile(graph, mesh, marks);
  return predict_step(std::make_shared<const TaskGraph>(std::move(compiled.tasks)),
                      identity_mapping(cluster, mesh->size()), {.prefetch_exchanges = false});
}

MeshPtr line(int size) {
  return std::make_shared<const Mesh>(Shape{size}, std::vector<std::string>{"r"});
}

constexpr double kFlops = 2.0 * 1000 * 500 * 400, kSecond = 1e12;

TEST(StepPrediction, OneRankTakesTheTimeOfItsKernels) {
  const StepPrediction step =
      step_prediction_predicted(one_product(), line(1), {}, plain_devices(1));
  EXPECT_NEAR(step.step.value(), kFlops / kSecond, 2e-9);
  EXPECT_EQ(step.executed, Flops(kFlops));
  EXPECT_NEAR(step.utilization(), 1, 1e-4);
  EXPECT_NEAR(step.ranks[0].compute.value(), step.step.value(), 2e-9);
  EXPECT_EQ(step.ranks[0].idle, Seconds(0));
}

TEST(StepPrediction, DividedRowsTakeAPartOfTheTime) {
  const StepPrediction step = step_prediction_predicted(
      one_product(), line(4), {shard_tensor("x", "P(\"r\")")}, plain_devices(4));
  EXPECT_NEAR(step.step.value(), kFlops / kSecond / 4, 2e-9);
  EXPECT_EQ(step.executed, Flops(kFlops));
}

TEST(StepPrediction, AnExchangeThatNothingHidesIsExposedOnItsAxis) {
  // Each of two ranks multiplies half of the inner elements and receives the other half of the sum:
  // of 1000 x 400 x 4 bytes half, and then the reduced half of the other.
  const StepPrediction step = step_prediction_predicted(
      one_product(), line(2), {shard_op("y", "[P(None, \"r\"), P(\"r\")] -> [P()]")},
      plain_devices(2));
  const double bytes = 1000 * 400 * 4, sum = bytes / 1e9;
  EXPECT_NEAR(step.step.value(), kFlops / kSecond / 2 + sum, 1e-6);
  for (const RankBreakdown& rank : step.ranks) {
    EXPECT_NEAR(rank.compute.value(), kFlops / kSecond / 2, 2e-9);
    EXPECT_NEAR(rank.exposed.at("r").value(), sum, 1e-6);
    EXPECT_NEAR(rank.compute.value() + rank.all_exposed().value() + rank.idle.value(),
                step.step.value(), 1e-8);
  }
}

TEST(StepPrediction, RanksShareTheCoresOfAMachine) {
  const std::string cores = R"(
[device.core]
kind = "cpu"
memory = "1 GB"
rates = {arithmetic = "1 Tflop/s", memory = "1000 TB/s", copies = "1000 TB/s", launch = "0 s"}
[[machine]]
count = 1
device = "core"
devices = 2
links = [{name = "memory", bandwidth = "1000 TB/s", latency = "0 s"}]
)";
  const Cluster cluster = parse_cluster(parse_toml(cores, "cores.toml"), "cores.toml");
  const StepPrediction step =
      step_prediction_predicted(one_product(), line(4), {shard_tensor("x", "P(\"r\")")}, cluster);
  EXPECT_NEAR(step.step.value(), kFlops / kSecond / 2, 1e-7) << "four ranks on two cores";
  for (const RankMemoryNeed& memory : step.memory)
    EXPECT_EQ(memory.capacity, Bytes(cluster.type(0).memory.value() / 2)) << "two on each";
}

TEST(StepPrediction, MemoryIsThatOfTheTaskGraph) {
  const Cluster small = plain_devices(1, "5 MB");
  Compiled compiled = compile(one_product(), line(1), {});
  const Bytes arena = compiled.tasks.arenas[MeshIndex(0)];
  const StepPrediction step = predict_step(
      std::make_shared<const TaskGraph>(std::move(compiled.tasks)), identity_mapping(small, 1));
  EXPECT_EQ(step.memory[0].arena, arena);
  EXPECT_EQ(step.memory[0].capacity, Bytes(5'000'000));
  EXPECT_EQ(step.fits(), arena <= Bytes(5'000'000));
  EXPECT_FALSE(
      step_prediction_predicted(one_product(), line(1), {}, plain_devices(1, "1 MB")).fits());
}

}  // namespace
}  // namespace tessera
