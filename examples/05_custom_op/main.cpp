// Lesson 5: an operator of your own, with its own gradient and kernel.
//
// rms_scale.cpp defines it, and a graph receives it in an operator set. Backward, placements,
// communication and memory follow as for built-in operators: here on two ranks, each with half of
// the rows, so that the gradient of the gain is a sum over both. mish.cpp has a smaller operator.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "rms_scale.h"
#include "runtime/runtime/runtime.h"

using namespace tessera;

namespace {

/// Learns the sign of a sum, which does not depend on the scale of a row: rms_scale removes it.
Graph training_graph() {
  Graph graph(std::make_shared<const OperatorSet>(rms_scale_operators(), rms_scale_kernels()));
  Builder b(graph);
  const ValueId x = b.variable("x", {DType::kF32, {64, 4}}, Initializer::normal(0, 1), false);
  const ValueId up = b.variable("up", {DType::kF32, {4, 16}}, Initializer::normal(0, 0.5));
  const ValueId gain = b.variable("gain", {DType::kF32, {16}}, Initializer::constant(1));
  const ValueId down = b.variable("down", {DType::kF32, {16}}, Initializer::normal(0, 0.25));
  const ValueId hidden = b.dot(x, up, "ni,ih->nh", "hidden");
  const ValueId scaled = b.op1("rms_scale", {hidden, gain}, {{"epsilon", 1e-6}}, "scaled");
  const ValueId y = b.dot(b.unary("tanh", scaled), down, "nh,h->n", "y");
  const ValueId target = b.unary("sign", b.reduce_sum(x, {1}, "sum"), "target");
  const ValueId loss = b.mul_scalar(b.reduce_sum(b.unary("square", b.sub(y, target, "error")), {0}),
                                    1.0 / 64, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kAdam});
  return graph;
}

std::vector<float> train(const TaskGraph& tasks) {
  Runtime runtime(ranks(tasks));
  LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(tasks));
  runtime.initialize(program, 1);
  std::vector<float> losses;
  TensorMap results;
  for (int32_t i = 0; i < 100; ++i) {
    const Tensor step = Tensor::scalar(i), rate = Tensor::scalar(0.004f);
    runtime.run(program, {{"step", &step}, {"learning_rate", &rate}}, results);
    losses.push_back(results.at("loss").values<float>()[0]);
  }
  return losses;
}

}  // namespace

int main() try {
  const Graph graph = training_graph();
  std::printf("%s\n%s\n", to_text(graph, *graph.find_op("scaled")).c_str(),
              to_text(graph, *graph.find_op("scaled.grad.x")).c_str());
  const TaskGraph alone =
      compile(graph, std::make_shared<const Mesh>(parse_mesh("dp=1")), {}).tasks;
  const TaskGraph both = compile(graph, std::make_shared<const Mesh>(parse_mesh("dp=2")),
                                 {shard_tensor("x", "P(\"dp\")")})
                             .tasks;
  for (const Task& task : both.tasks)
    if (task.kind == Task::Kind::kExchange) std::printf("%s\n", task.name.text().c_str());
  const std::vector<float> a = train(alone), b = train(both);
  for (size_t i = 0; i < a.size(); i += 33)
    std::printf("step %2zu: loss %.2f on one rank, %.2f on two\n", i, a[i], b[i]);
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
