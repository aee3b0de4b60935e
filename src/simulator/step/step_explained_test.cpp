// The memory over time and the critical path of a predicted step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "simulator/step/step_prediction.h"
#include "simulator/step/testing/plain_devices.h"
#include "simulator/step/testing/product.h"

namespace tessera {
namespace {

std::shared_ptr<const TaskGraph> tasks_of(const Graph& graph, int ranks = 1,
                                          const std::vector<Mark>& marks = {}) {
  const auto mesh = std::make_shared<const Mesh>(Shape{ranks}, std::vector<std::string>{"r"});
  return std::make_shared<const TaskGraph>(compile(graph, mesh, marks).tasks);
}

StepPrediction explained(const std::shared_ptr<const TaskGraph>& tasks, const Cluster& cluster,
                         PredictOptions options = {}) {
  options.explains = true;
  options.prefetch_exchanges = false;
  return predict_step(tasks, identity_mapping(cluster, static_cast<int>(ranks(*tasks).size())),
                      options);
}

/// y = x w with 1000 rows, 500 inner elements and 400 columns.
/// The gradients of two layers with 64 rows: loss = sum of tanh(x w) v.
Graph two_layers() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {64, 32}});
  const ValueId w = builder.variable("layers.0.w", {DType::kF32, {32, 128}}, {});
  const ValueId v = builder.variable("layers.1.w", {DType::kF32, {128, 16}}, {});
  const ValueId h =
      builder.unary("tanh", builder.dot(x, w, "mk,kn->mn", "layers.0.dot"), "layers.0.tanh");
  const ValueId y = builder.dot(h, v, "mk,kn->mn", "layers.1.dot");
  const ValueId loss = builder.reduce_sum(y, {0, 1}, "loss");
  const std::vector<ValueId> gradients = differentiate(builder, loss, {w, v});
  graph.add_output("loss", loss);
  graph.add_output("dw", gradients[0]);
  graph.add_output("dv", gradients[1]);
  return graph;
}

Bytes at_peak(const StepPrediction& step, MemoryKind kind) {
  return step.memory_over_time.at(0).at_peak().bytes.at(static_cast<size_t>(kind));
}

TEST(MemoryOverTime, IsWhatTheRegistersHold) {
  const Cluster cluster = plain_devices(1);
  const StepPrediction step = explained(tasks_of(one_product()), cluster);
  EXPECT_EQ(at_peak(step, MemoryKind::kBatch), Bytes(4 * (1000 * 500 + 500 * 400)));
  EXPECT_EQ(at_peak(step, MemoryKind::kTemporaries), Bytes(4 * 1000 * 400));
  EXPECT_EQ(step.memory_over_time[0].largest.at(0).name, "x");
  // The feed takes no time, so y is filled from the same moment on, and x is larger.
  EXPECT_EQ(step.memory_over_time[0].filled, "x");
  EXPECT_EQ(at_peak(step, MemoryKind::kVariables), Bytes(0));
}

TEST(MemoryOverTime, KeepsActivationsThatTheBackwardReads) {
  const Cluster cluster = plain_devices(1);
  const StepPrediction step = explained(tasks_of(two_layers()), cluster);
  EXPECT_EQ(at_peak(step, MemoryKind::kVariables), Bytes(4 * (32 * 128 + 128 * 16)));
  // The result of tanh is read by the gradients of the tanh and of the second product.
  EXPECT_GE(at_peak(step, MemoryKind::kActivations), Bytes(4 * 64 * 128));
  EXPECT_GT(at_peak(step, MemoryKind::kGradients), Bytes(0));
}

// One matrix of 32 x 128 is trained on 4096 rows: activations are most of the memory, and gone when
// the update begins, which needs the gradient.
TEST(MemoryOverTime, HasAPeakOfTheOptimizer) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {4096, 32}});
  const ValueId w = builder.variable("w", {DType::kF32, {32, 128}}, {});
  const ValueId y = builder.unary("tanh", builder.dot(x, w, "mk,kn->mn", "y"), "z");
  OptimizerConfig adam;
  adam.clip_norm = 1;
  add_training(builder, builder.reduce_sum(y, {0, 1}, "loss"), adam);
  const Cluster cluster = plain_devices(1);
  const StepPrediction step = explained(tasks_of(graph), cluster);
  const MemoryOverTime& memory = step.memory_over_time.at(0);
  ASSERT_TRUE(memory.optimizer_peak);
  const MemoryMoment& moment = memory.moments[*memory.optimizer_peak];
  EXPECT_GT(moment.at, memory.at_peak().at);
  EXPECT_GE(sum(memory.at_peak().bytes), sum(moment.bytes) + Bytes(4 * 4096 * 128 / 2));
  const auto of = [&](MemoryKind kind) { return moment.bytes.at(static_cast<size_t>(kind)); };
  EXPECT_EQ(of(MemoryKind::kActivations), Bytes(0));
  const Bytes weight(4 * 32 * 128);
  EXPECT_GE(of(MemoryKind::kVariables), weight + weight + weight);  // and two moments of Adam
  // The gradient, or what the clip has made of it.
  EXPECT_GE(of(MemoryKind::kGradients) + of(MemoryKind::kTemporaries), weight);

  const StepPrediction without = explained(tasks_of(two_layers()), cluster);
  EXPECT_FALSE(without.memory_over_time.at(0).optimizer_peak);
}

TEST(MemoryOverTime, IsNeverMoreThanTheArenaAndReachesIt) {
  const Cluster cluster = plain_devices(2);
  for (const Graph& graph : {one_product(), two_layers()})
    for (int ranks : {1, 2}) {
      const auto tasks = tasks_of(graph, ranks, {shard_tensor("x", "P(\"r\")")});
      const StepPrediction step = explained(tasks, cluster);
      Bytes maximum{0};
      for (const MemoryMoment& moment : step.memory_over_time.at(0).moments)
        maximum = std::max(maximum, sum(moment.bytes));
      EXPECT_LE(maximum, step.memory[0].allocated());
      // Alignment and the order in which bytes are reused may cost a little.
      EXPECT_GT(maximum.value(), 0.9 * static_cast<double>(step.memory[0].allocated().value()));
      EXPECT_EQ(maximum, sum(step.memory_over_time[0].at_peak().bytes));
    }
}

TEST(MemoryOverTime, CountsTheBytesOfAKernelThatRunsInPlaceOnce) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {1000}});
  graph.add_output("z", builder.unary("tanh", builder.unary("tanh", x, "y"), "z"));
  const Cluster cluster = plain_devices(1);
  const StepPrediction step = explained(tasks_of(graph), cluster);
  EXPECT_LE(sum(step.memory_over_time[0].at_peak().bytes), Bytes(2 * 4000));
}

TEST(MemoryOverTime, HasAnEntryForEachClassOfRanks) {
  const Cluster cluster = plain_devices(4);
  const auto tasks = tasks_of(one_product(), 4, {shard_tensor("x", "P(\"r\")")});
  EXPECT_EQ(explained(tasks, cluster).memory_over_time.size(), 1U);
  EXPECT_EQ(explained(tasks, cluster, {.uses_rank_symmetry = false}).memory_over_time.size(), 4U);
}

TEST(MemoryNeed, HasTheArenasOfProgramsThatStayLoaded) {
  const Cluster cluster = plain_devices(1);
  const auto tasks = tasks_of(two_layers()), other = tasks_of(one_product());
  const StepPrediction step = explained(tasks, cluster, {.beside = {other}});
  EXPECT_EQ(step.memory[0].others, other->arenas[MeshIndex(0)]);
  EXPECT_EQ(step.peak_bytes(), Bytes(4 * (32 * 128 + 128 * 16)) + tasks->arenas[MeshIndex(0)] +
                                   other->arenas[MeshIndex(0)]);
}

TEST(CriticalPath, IsDividedByKindOfWorkAndAxis) {
  // Of 1000 x 500 x 400 products each rank has half: 0.2 ms. It receives half of the sum of 1.6 MB,
  // and then the reduced half of the other: 1.6 ms.
  const Cluster cluster = plain_devices(2);
  const StepPrediction step = explained(
      tasks_of(one_product(), 2, {shard_op("y", "[P(None, \"r\"), P(\"r\")] -> [P()]")}), cluster);
  ASSERT_FALSE(step.critical.empty());
  double matmul = 0, exchange = 0, all = 0;
  for (const CriticalPart& part : step.critical) {
    all += part.time.value();
    if (part.what == "matmul, forward") matmul += part.time.value();
    if (part.what.ends_with("over r")) exchange += part.time.value();
  }
  EXPECT_NEAR(matmul, 2e-4, 1e-6);
  EXPECT_NEAR(exchange, 1.6e-3, 1e-6);
  EXPECT_NEAR(all, step.step.value(), 1e-8);
}

TEST(CriticalPath, NamesTheLayersOfItsParts) {
  const Cluster cluster = plain_devices(1);
  const StepPrediction step = explained(tasks_of(two_layers()), cluster);
  const auto forward = std::ranges::find(step.critical, "matmul, forward", &CriticalPart::what);
  ASSERT_NE(forward, step.critical.end());
  EXPECT_EQ(forward->layers, "layers.{0..1}");
  // Of the three products of the backward, one is of layer 0 and one or two are of layer 1.
  EXPECT_THAT(critical_text(step.critical),
              testing::HasSubstr("% matmul, backward of layers.{0..1} on rank 0"));
}

TEST(CriticalText, LeavesOutSmallParts) {
  const std::vector<CriticalPart> parts{{"matmul, forward", "blocks.{0..3}", 0, Seconds(0.6)},
                                        {"all-reduce over tp", "", 2, Seconds(0.36)},
                                        {"elementwise, forward", "", 0, Seconds(0.04)}};
  EXPECT_EQ(critical_text(parts),
            "60% matmul, forward of blocks.{0..3} on rank 0, 36% all-reduce over tp on rank 2, "
            "4% others");
  EXPECT_EQ(critical_text({}), "");
}

}  // namespace
}  // namespace tessera
