#include "measure/exchange_times.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "lower/lower.h"
#include "measure/kernel_times.h"
#include "ops/builder.h"
#include "runtime/runtime.h"

namespace tessera {
namespace {

constexpr int kExchanges = 8;  // of a step

/// A tensor that is divided and gathered in turn.
Compiled gathers(int64_t elements) {
  Graph graph;
  Builder builder(graph);
  std::vector<Mark> marks;
  ValueId value = builder.input("x", {DType::kF32, {elements}});
  for (int i = 0; i < kExchanges; ++i) {
    const std::string divided = "divided." + std::to_string(i),
                      whole = "whole." + std::to_string(i);
    value = builder.mul_scalar(value, 1.0, divided);
    value = builder.mul_scalar(value, 1.0, whole);
    marks.push_back(shard_op(divided, "[P(\"r\")]"));
    marks.push_back(shard_op(whole, "[P()]"));
  }
  graph.add_output("y", value);
  const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"r"});
  return compile(graph, mesh, marks);
}

double least_step(const TaskGraph& tasks, int64_t elements, std::vector<Rank> ranks = {0, 1}) {
  Runtime runtime(std::move(ranks));
  LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(tasks));
  const Tensor x({DType::kF32, {elements}});
  TensorMap results;
  double best = std::numeric_limits<double>::infinity();
  const int steps = elements > 1 << 16 ? 20 : 200;
  for (int step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    runtime.run(program, {{"x", &x}}, results);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

/// A chain of so many kernels of a few elements, on one rank.
TaskGraph chain(int kernels) {
  Graph graph;
  Builder builder(graph);
  ValueId value = builder.input("x", {DType::kF32, {16}});
  for (int i = 0; i < kernels; ++i)
    value = builder.mul_scalar(value, 1.5, "scaled." + std::to_string(i));
  graph.add_output("y", value);
  const auto mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"r"});
  return compile(graph, mesh, {}).tasks;
}

Seconds scaling(int64_t elements) {
  const TensorType type{DType::kF32, {elements}};
  return time_of({"scalar.mul", {}, {1.0}, "", {type}, {type}}, Seconds(0.002));
}

}  // namespace

Seconds dispatch_time() {
  constexpr int kFew = 100, kMany = 1100;
  const double more = least_step(chain(kMany), 16, {0}) - least_step(chain(kFew), 16, {0});
  return Seconds(std::max(0.0, more / (kMany - kFew) - scaling(16).value()));
}

std::vector<MeasuredTime> measure_exchanges() {
  std::vector<MeasuredTime> times;
  for (int64_t elements = 1 << 8; elements <= 1 << 21; elements *= 8) {
    const double step = least_step(gathers(elements).tasks, elements);
    // The feed and the fetch copy the tensor, too.
    const double kernels = kExchanges * (scaling(elements) + scaling(elements / 2)).value() +
                           2 * scaling(elements).value();
    const Seconds exchange(std::max(step - kernels, 0.1 * step) / kExchanges);
    times.push_back({Bytes(elements / 2 * 4), exchange});
  }
  return times;
}

}  // namespace tessera
