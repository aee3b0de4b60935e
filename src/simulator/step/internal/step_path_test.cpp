#include "simulator/step/internal/step_path.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/profile_file.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"
#include "simulator/step/step_prediction.h"

namespace tessera {
namespace {

/// Training steps of a chain of layers over two ranks that divide the batch.
std::shared_ptr<const TaskGraph> chain(int layers) {
  Graph graph;
  Builder b(graph);
  ValueId x = b.input("x", {DType::kF32, {512, 256}});
  for (int i = 0; i < layers; ++i) {
    const ValueId w =
        b.variable("w" + std::to_string(i), {DType::kF32, {256, 256}}, Initializer::normal(0, 0.1));
    x = b.unary("tanh", b.dot(x, w, "mk,kn->mn", "h" + std::to_string(i)), "t" + std::to_string(i));
  }
  const ValueId loss = b.reduce_sum(b.unary("square", x, "q"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  return std::make_shared<const TaskGraph>(
      compile(graph, mesh_of("dp=2"), {shard_tensor("x", "P(\"dp\")")}).tasks);
}

StepPrediction predicted(const std::shared_ptr<const TaskGraph>& tasks, const Cluster& cluster) {
  return predict_step(tasks, identity_mapping(cluster, 2), {.finds_path = true});
}

RuntimeProfile host_of(Seconds host) {
  RuntimeProfile profile = *find_runtime_profile("megatron");
  profile.host = host;
  return profile;
}

Cluster with(const RuntimeProfile& profile) {
  return Cluster(on_runtime(cluster_of("2xa100-80g").description(), profile));
}

TEST(StepPath, IsAsLongAsTheStep) {
  const Cluster cluster = with(host_of(Seconds(10e-6)));
  const StepPrediction step = predicted(chain(3), cluster);
  EXPECT_NEAR(step.path->on(cluster).value() / step.step.value(), 1, 1e-3);
}

// With exchanges that no kernel hides the path is the same for all prices.
TEST(StepPath, TellsTheStepOfOtherPrices) {
  const auto tasks = chain(3);
  const StepPrediction step = predicted(tasks, with(host_of(Seconds(50e-6))));
  for (RuntimeProfile other : {host_of(Seconds(80e-6)), host_of(Seconds(30e-6))}) {
    other.reach.inside.bandwidth = 0.5;
    other.constant = Seconds(1e-3);
    const Cluster cluster = with(other);
    PredictOptions options{.prefetch_exchanges = false, .finds_path = true};
    const StepPrediction before = predict_step(tasks, identity_mapping(cluster, 2), options);
    EXPECT_NEAR(before.path->on(cluster).value() / before.step.value(), 1, 1e-3);
    EXPECT_NEAR(step.path->on(cluster).value() / before.step.value(), 1, 0.05);
  }
}

}  // namespace
}  // namespace tessera
