#include "tools/measure/internal/step_programs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "ir/ops/builder.h"
#include "tools/measure/kernel_times.h"

namespace tessera {

TaskGraph gather_chain(const GatherChain& chain) {
  Graph graph;
  Builder builder(graph);
  std::vector<Mark> marks;
  ValueId value = builder.input("x", {DType::kF32, {chain.elements}});
  for (int i = 0; i < chain.exchanges; ++i) {
    const std::string divided = "divided." + std::to_string(i),
                      whole = "whole." + std::to_string(i);
    value = builder.mul_scalar(value, 1.0, divided);
    value = builder.mul_scalar(value, 1.0, whole);
    marks.push_back(shard_op(divided, "[P(\"r\")]"));
    marks.push_back(shard_op(whole, "[P()]"));
  }
  graph.add_output("y", value);
  const auto mesh = std::make_shared<const Mesh>(Shape{std::ssize(chain.ranks)},
                                                 std::vector<std::string>{"r"}, chain.ranks);
  return compile(graph, mesh, marks).tasks;
}

double min_step(Runtime& runtime, const TaskGraph& tasks, int64_t elements, int steps) {
  LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(tasks));
  const Tensor x({DType::kF32, {elements}});
  TensorMap results;
  double best = std::numeric_limits<double>::infinity();
  for (int step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    runtime.run(program, {{"x", &x}}, results);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

Seconds scaling_time(int64_t elements) {
  const TensorType type{DType::kF32, {elements}};
  return time_of({"scalar.mul", {}, {1.0}, "", {type}, {type}}, Seconds(0.002));
}

Seconds kernels_of_exchange(const GatherChain& chain) {
  return scaling_time(chain.elements) + scaling_time(chain.elements / std::ssize(chain.ranks));
}

}  // namespace tessera
