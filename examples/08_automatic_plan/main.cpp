// Lesson 8: a plan is found for a network of your own, with dropout, and verified.
#include <cstdio>

#include "base/error.h"
#include "ir/models/class_counts.h"
#include "training/automatic/auto_plan.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

using namespace tessera;

/// Two layers with dropout between them give each of ten digits a score.
void write_graph(Forward& forward) {
  Builder& b = forward.builder();
  LayerContext layers = forward.layers();
  const ValueId images = forward.input("images", {DType::kF32, {1, 12, 12}});
  const ValueId pixels = b.reshape(images, {forward.rows(), 144});
  const ValueId hidden = relu(layers, linear(layers, pixels, 256, "hidden"));
  const ValueId scores = linear(layers, dropout(layers, hidden, 0.2, "drop"), 10, "scores");
  forward.output("scores", scores);
  if (!forward.has_loss()) return;
  const ValueId labels = forward.input("labels", {DType::kI32, {}});
  forward.output("loss", cross_entropy(layers, scores, labels, "loss").loss);
  forward.output("correct", correct_count(b, scores, labels).count);
}

int main() try {
  const Network network{.forward = write_graph, .metrics = {{"accuracy", "correct"}}};
  const TrainingSettings settings{.train = {.batch = 64}};
  const DrawingOptions drawing{.samples = 2000, .size = 12};
  const auto data = data_of(std::make_shared<const DrawnDigits>(drawing), 0.1, "image");
  Engine engine(network, settings, auto_plan(2), data);
  fit(engine, 200);
  std::printf("it runs on %d ranks\n", engine.runtime().ranks());
  const bool learned = engine.evaluate(3).metric("accuracy") > 0.5;
  std::printf("more than half of the digits are right: %s\n", learned ? "yes" : "no");
  const VerifyReport report = verify_plan(network, settings, engine.plan(), data, {.steps = 2});
  std::printf("all values are those of the serial run: %s\n", report.ok ? "yes" : "no");
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
