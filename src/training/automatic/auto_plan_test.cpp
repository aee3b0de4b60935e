#include "training/automatic/auto_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "cluster/cluster/cluster_file.h"
#include "training/engine/run_data.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using testing::HasSubstr;

/// Digits through two layers with dropout between them.
Network network_with_dropout() {
  Network network{.forward = [](Forward& forward) {
    Builder& b = forward.builder();
    LayerContext layers = forward.layers();
    const ValueId images = forward.input("images", {DType::kF32, {1, 12, 12}});
    const ValueId pixels = b.reshape(images, {forward.rows(), 144});
    const ValueId hidden = relu(layers, linear(layers, pixels, 64, "hidden"));
    const ValueId scores = linear(layers, dropout(layers, hidden, 0.5, "drop"), 10, "scores");
    forward.output("scores", scores);
    if (!forward.has_loss()) return;
    const ValueId labels = forward.input("labels", {DType::kI32, {}});
    forward.output("loss", cross_entropy(layers, scores, labels, "loss").loss);
  }};
  network.name = "the classifier";
  return network;
}

std::shared_ptr<const RunData> digits() {
  const DrawingOptions drawing{.samples = 64, .size = 12};
  return data_of(std::make_shared<const DrawnDigits>(drawing), 0.25, "image");
}

AutoPlanOptions on(const char* cluster) {
  return {.cluster = std::make_shared<const Cluster>(parse_cluster_line(cluster))};
}

TEST(AutoPlan, OfAnOwnNetworkWithDropoutTrainsEvaluatesPredictsAndIsVerified) {
  const Network network = network_with_dropout();
  const TrainingSettings settings{.train = {.batch = 8}};
  const auto data = digits();
  Engine engine(network, settings, auto_plan(2, on("2xa100-80g")), data);
  EXPECT_EQ(engine.runtime().ranks(), 2);
  EXPECT_TRUE(engine.plan().is_found);
  EXPECT_NE(engine.plan().cost.cluster, "");
  fit(engine, 2);
  EXPECT_GT(engine.evaluate(1).loss, 0);
  EXPECT_TRUE(engine.predict(engine.next_batch()).contains("scores"));
  EXPECT_TRUE(verify_plan(network, settings, engine.plan(), data, {.steps = 1}).ok);
}

TEST(AutoPlan, ObeysTheConstraints) {
  AutoPlanOptions options = on("2xa100-80g");
  options.constraints.degrees = {{"tp", 2}};
  const Plan plan = find_plan_for(network_with_dropout(), {.train = {.batch = 8}}, 2, options);
  EXPECT_EQ(mesh_text(plan), "tp=2");
}

TEST(AutoPlan, ThatDoesNotFitSaysWhatIsMissing) {
  ClusterDescription description = parse_cluster_line("2xa100-80g").description();
  description.types.front().memory = Bytes(1'000'010'000);  // 10 kB beside the reserve
  const AutoPlanOptions options{.cluster = std::make_shared<const Cluster>(description)};
  const std::string message = error_testing::message_of(ExitCode::kNoPlan, [&] {
    Engine(network_with_dropout(), {.train = {.batch = 8}}, auto_plan(2, options), digits());
  });
  EXPECT_THAT(message, HasSubstr("no plan of 2 ranks for the classifier fits"));
  EXPECT_THAT(message, HasSubstr(" lacks "));
}

}  // namespace
}  // namespace tessera
