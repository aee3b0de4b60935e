// Steps of pipelines whose kernels sleep, against the virtual clock: the ratio of the measured step to the one that is foretold, a line a
// schedule. Sleeping ranks need no cores, so any number of them runs on any machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../tests/sleeping_pipeline.h"
#include "runtime/runtime.h"

namespace tessera {
namespace {

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

constexpr FakeDeviceOptions kFake{.launch = Seconds(0.0005), .slowness = 1.5};

double measured_step(const std::shared_ptr<const TaskGraph>& graph, int steps) {
  Runtime runtime(processes(*graph), {.fake_device = kFake});
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

struct Setup {
  PipelineKind kind;
  int processes = 2;
  bool equal = true;
  bool mixed = false;
};

/// Forward and both gradients take `unit` each; or one stage is slower and each has another share of the backward.
std::vector<StageWork> stages_of(const Setup& setup, double unit) {
  std::vector<StageWork> stages;
  const int count = static_cast<int>(processes_for(setup.kind, setup.processes).size());
  for (int s = 0; s < count; ++s) {
    const double slow = !setup.equal && s == count / 2 ? 1.6 : 1;
    const double tilt = setup.equal ? 0 : 0.2 * (s % 3);
    stages.push_back({Seconds(unit * slow), Seconds(unit * (slow + tilt)), Seconds(unit * slow)});
  }
  return stages;
}

double compare(const Setup& setup, double unit, int steps) {
  const int64_t micro_batches = 2 * setup.processes;
  const auto graph = std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages_of(setup, unit), {processes_for(setup.kind, setup.processes), setup.mixed}, micro_batches, setup.kind)
          .tasks);
  const Simulation foretold = simulate_sleep(graph, 2, kFake);
  const double measured = measured_step(graph, steps), ratio = measured / foretold.step.value();
  double span_bubble = 0;
  for (const RankTimes& rank : foretold.ranks) span_bubble = std::max(span_bubble, rank.bubble_of_span());
  fmt::print(
      "{:12} p={} m={} {:8} {:15} foretold {:7.1f} ms, measured {:7.1f} ms, ratio {:.4f}; bubble of the step {:.3f}, of a process {:.3f}\n",
      to_text(setup.kind), setup.processes, micro_batches, setup.equal ? "equal" : "unequal", setup.mixed ? "hosts + devices" : "hosts",
      1e3 * foretold.step.value(), 1e3 * measured, ratio, foretold.bubble(), span_bubble);
  std::fflush(stdout);
  return std::abs(ratio - 1);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const double unit = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;  // a forward, in milliseconds
  const int steps = argc > 2 ? std::atoi(argv[2]) : 3;
  double worst = 0;
  for (const PipelineFacts& facts : pipeline_schedules())
    for (int processes : {2, 4})
      for (bool equal : {true, false})
        for (bool mixed : {false, true}) worst = std::max(worst, compare({facts.kind, processes, equal, mixed}, unit, steps));
  fmt::print("the largest difference is {:.2f}%\n", 100 * worst);
}
