// Steps of pipelines whose kernels sleep, against the virtual clock: the ratio of the measured step to the one that is foretold, a line a
// schedule. Sleeping ranks need no cores, so any number of them runs on any machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "../tests/sleeping_pipeline.h"
#include "runtime/runtime.h"

namespace tessera {
namespace {

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double measured_step(const std::shared_ptr<const TaskGraph>& graph, int steps) {
  Runtime runtime(processes(*graph));
  LoadedProgram& program = runtime.load(graph);
  const Tensor x(graph->inputs.front().type);
  TensorMap results;
  std::vector<double> times;
  for (int step = 0; step <= steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    runtime.run(program, {{"x", &x}}, results);
    if (step > 0) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(times);
}

/// Forward and both gradients take `unit` each; or one stage is slower and each has another share of the backward.
std::vector<StageWork> stages_of(int count, bool equal, double unit) {
  std::vector<StageWork> stages;
  for (int s = 0; s < count; ++s) {
    const double slow = !equal && s == count / 2 ? 1.6 : 1;
    const double tilt = equal ? 0 : 0.2 * (s % 3);
    stages.push_back({Seconds(unit * slow), Seconds(unit * (slow + tilt)), Seconds(unit * slow)});
  }
  return stages;
}

double compare(int p, int64_t m, PipelineKind kind, bool equal, double unit, int steps) {
  const std::vector<Rank> processes = processes_for(kind, p);
  const auto graph = std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages_of(static_cast<int>(processes.size()), equal, unit), m, kind, processes).tasks);
  const Simulation foretold = simulate_sleep(graph, 2);
  const double measured = measured_step(graph, steps), ratio = measured / foretold.step.value();
  double span_bubble = 0;
  for (const RankTimes& rank : foretold.ranks) span_bubble = std::max(span_bubble, rank.bubble_of_span());
  fmt::print(
      "{:11} p={} m={:<2} {:8} foretold {:7.1f} ms, measured {:7.1f} ms, ratio {:.4f}   bubble of the step {:.3f}, of a stage {:.3f}\n",
      to_text(kind), p, m, equal ? "equal" : "unequal", 1e3 * foretold.step.value(), 1e3 * measured, ratio, foretold.bubble(), span_bubble);
  return std::abs(ratio - 1);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const double unit = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;  // a forward, in milliseconds
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5;
  double worst = 0;
  for (const PipelineFacts& facts : pipeline_schedules())
    for (int p : {2, 4})
      for (bool equal : {true, false}) worst = std::max(worst, compare(p, 2 * p, facts.kind, equal, unit, steps));
  fmt::print("the largest difference is {:.2f}%\n", 100 * worst);
}
