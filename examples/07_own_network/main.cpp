// Lesson 7: a convolutional network with a loss of its own, on two data-parallel ranks.
#include <cstdio>

#include "base/error.h"
#include "ir/models/class_counts.h"
#include "ir/ops/spatial.h"
#include "training/engine/checkpointing.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

using namespace tessera;

/// Two convolutions and a layer give each of ten digits a score. The loss is the squared hinge: the
/// score of the label should be above 1, all others below -1.
void write_graph(Forward& forward) {
  Builder& b = forward.builder();
  LayerContext layers = forward.layers();
  const int64_t rows = forward.rows();
  ValueId x = forward.input("images", {DType::kF32, {1, 12, 12}});
  for (const auto& [name, in, out] : {std::tuple{"first", 1, 8}, std::tuple{"second", 8, 16}}) {
    const TensorType type{DType::kF32, {out, in, 3, 3}};
    const ValueId weight = b.variable(name, type, Initializer::normal(0, 0.3));
    x = relu(layers, convolution(b, x, weight, {.stride = {2, 2}}));
  }
  const ValueId scores = linear(layers, b.reshape(x, {rows, 64}), 10, "scores");
  forward.output("scores", scores);
  if (!forward.has_loss()) return;
  const ValueId labels = forward.input("labels", {DType::kI32, {}});
  const ValueId classes = b.iota({DType::kI32, {rows, 10}}, 1);
  const ValueId is_label = b.compare("eq", b.broadcast(labels, {rows, 10}, {0}), classes);
  const ValueId wrong = b.select(is_label, b.mul_scalar(scores, -1), scores);
  const ValueId missing = b.max_scalar(b.add_scalar(wrong, 1), 0);
  const ValueId sum = b.reduce_sum(b.unary("square", missing), {0, 1});
  forward.output("loss", b.mul_scalar(sum, 1.0 / static_cast<double>(rows)));
  forward.output("correct", correct_count(b, scores, labels).count);
}

int main() try {
  const Network network{.forward = write_graph,
                        .metrics = {{"accuracy", "correct"}},
                        .groups = {{.pattern = "scores.*", .rate = 0.5}}};
  const TrainingSettings settings{.optimizer = {.schedule = {.peak = 0.005}}};
  const DrawingOptions drawing{.samples = 2000, .size = 12};
  const auto data = data_of(std::make_shared<const DrawnDigits>(drawing), 0.1, "image");
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp2")));
  plan.marks = {shard_tensor("{images,labels}", "P(\"dp\")")};
  Engine engine(network, settings, plan, data);
  fit(engine, 3000);
  const bool learned = engine.evaluate(12).metric("accuracy") > 0.5;
  std::printf("more than half of the digits are right: %s\n", learned ? "yes" : "no");
  RealFileSystem disk;
  CheckpointFolder folder(disk, std::filesystem::temp_directory_path() / "tessera_lesson_7");
  save_checkpoint(engine, folder, 1);
  engine.switch_plan(serial_plan());
  restore(engine, Checkpoint(disk, folder.path_of(3000)));
  std::printf("step %d is done, on %d rank\n", int(engine.step_count()), engine.runtime().ranks());
  const VerifyReport report = verify_plan(network, settings, plan, data, {.steps = 2});
  std::printf("all values are those of the serial run: %s\n", report.ok ? "yes" : "no");
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
