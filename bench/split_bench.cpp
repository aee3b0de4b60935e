// Compares collective matmuls in chunks with whole matmuls: two processes, Megatron layers with
// sequence parallelism. Matmuls sleep for the time of an accelerator, and data arrives after the
// delay of a network. Neither needs cores, so the ratio is meaningful on any machine.
//
//     mpirun -n 2 split_bench [MILLISECONDS a product [MILLISECONDS a transfer]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/lower/passes/matmul_cost.h"
#include "ir/ops/builder.h"
#include "kernels/kernel_set.h"
#include "runtime/comm/network.h"
#include "runtime/mpi/mpi_process.h"
#include "runtime/runtime/runtime.h"
#include "slow_transport.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 4096, kWidth = 512, kInner = 512;
constexpr int kLayers = 4, kSteps = 15;

Graph layers() {
  Graph graph;
  Builder b(graph);
  ValueId h = b.input("x", {DType::kF32, {kRows, kWidth}});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string number = std::to_string(layer);
    const ValueId up =
        b.variable("up" + number, {DType::kF32, {kWidth, kInner}}, Initializer::normal(0, 0.01));
    const ValueId down =
        b.variable("down" + number, {DType::kF32, {kInner, kWidth}}, Initializer::normal(0, 0.01));
    const ValueId u = b.dot(h, up, "mk,kn->mn", "u" + number);
    h = b.unary("neg", b.dot(u, down, "mk,kn->mn", "d" + number), "h" + number);
  }
  graph.add_output("largest", b.reduce(ReduceOp::kMax, h, {0, 1}, "largest"));
  return graph;
}

/// Sleeps instead of a matmul. A chunk of it sleeps for its part of the time.
BoundKernel bind_sleep(const LocalCall& call) {
  double products = static_cast<double>(element_count(call.outputs[0].shape));
  products *= static_cast<double>(element_count(call.inputs[0].shape)) /
              static_cast<double>(call.outputs[0].shape[0]);
  const auto time = std::chrono::duration<double>(products * call.reals.at(0));
  return {[time](const KernelBuffers&) { std::this_thread::sleep_for(time); }, Bytes(0)};
}

std::shared_ptr<const TaskGraph> sleeping_layers(int64_t chunks, Seconds product) {
  const std::vector<Mark> marks = {
      shard_tensor("{x,h*}", "P(\"tp\")"), shard_tensor("up*", "P(None, \"tp\")"),
      shard_tensor("down*", "P(\"tp\")"), shard_op("u*", "[P(), P(None, \"tp\")]")};
  const Plan plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("tp=2"))),
                  .collective_matmul = chunks,
                  .marks = marks};
  auto tasks = std::make_shared<TaskGraph>(compile(layers(), plan).tasks);
  tasks->kernels =
      std::make_shared<const KernelSet>(std::vector<NamedKernel>{{"sleeping_product", bind_sleep}});
  const double of_a_multiplication =
      product.value() / static_cast<double>(kRows * kWidth * kInner / 2);
  for (TaskForm& task : tasks->tasks.forms())
    for (KernelForm& step : task.steps)
      if (step.call->kernel == "dot_general")
        step.call = KernelCall{"sleeping_product", {}, {of_a_multiplication}, ""};
  return tasks;
}

double median_step(const std::shared_ptr<ProcessNetwork>& network, int64_t chunks,
                   Seconds product) {
  Runtime runtime(std::vector<Rank>{0, 1}, {.network = network});
  LoadedProgram& program = runtime.load(sleeping_layers(chunks, product));
  runtime.initialize(program, 1);
  Tensor x({DType::kF32, {kRows, kWidth}});
  TensorMap results;
  std::vector<double> times;
  for (int step = 0; step < kSteps + 2; ++step) {
    const auto start = std::chrono::steady_clock::now();
    runtime.run(program, {{"x", &x}}, results);
    if (step >= 2)
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int run(Seconds product, Seconds transfer) {
  MpiProcess process;
  if (process.size() != 2) {
    if (process.process() == 0)
      std::printf("split_bench needs two processes: mpirun -n 2 split_bench\n");
    return 0;
  }
  // The bytes that each process receives before or after a product.
  const double bytes = 4.0 * kRows / 2 * kWidth;
  const auto network = std::make_shared<ProcessNetwork>(
      std::make_unique<SlowTransport>(process.transport(), bytes / transfer.value()));
  const double whole = median_step(network, 1, product);
  if (process.process() == 0)
    std::printf("%d matmuls of %.1f ms, each with a transfer of %.1f ms: %.1f ms a step\n",
                2 * kLayers, 1e3 * product.value(), 1e3 * transfer.value(), 1e3 * whole);
  for (const int64_t chunks : {2, 4, 8}) {
    const double time = median_step(network, chunks, product);
    const auto parts = static_cast<double>(chunks);
    const Seconds predicted = decomposed_time(
        chunks, {Seconds(transfer.value() / parts), Seconds(product.value() / parts), Seconds(0)});
    if (process.process() == 0)
      std::printf("%d chunks: %.1f ms, %.2f of whole; without copies %.2f\n",
                  static_cast<int>(chunks), 1e3 * time, time / whole,
                  predicted.value() / (product + transfer).value());
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const auto milliseconds = [&](int at) {
    return tessera::Seconds(1e-3 * (argc > at ? std::atof(argv[at]) : 15));
  };
  return tessera::run(milliseconds(1), milliseconds(2));
}
