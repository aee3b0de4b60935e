// Compares steps of pipelines whose kernels sleep with the simulated clock: the ratio of the
// measured step to the simulated one, with one line per schedule. Sleeping ranks need no cores, so
// any number of them runs on any machine.
//
//     sleep_bench [MILLISECONDS OF A FORWARD [STEPS [SCHEDULE]]]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../tests/sleeping_pipeline.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/actors/run_check.h"

namespace tessera {
namespace {

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

constexpr FakeDeviceOptions kFake{.launch = Seconds(0.0005), .slowness = 1.5};

double measured_step(const std::shared_ptr<const TaskGraph>& graph, int steps) {
  Runtime runtime(ranks(*graph), {.fake_device = kFake});
  LoadedProgram& program = runtime.load(graph);
  runtime.initialize(program, 0);
  const Tensor x(graph->inputs.front().type);
  TensorMap results;
  std::vector<double> times;
  for (int step = 0; step <= steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    runtime.run(program, {{"x", &x}}, results);
    if (step > 0)
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(times);
}

/// The time of a step when steps overlap.
double measured_period(const std::shared_ptr<const TaskGraph>& graph, int steps) {
  constexpr int kFirst = 2;  // steps until the steady state
  Runtime runtime(ranks(*graph));
  LoadedProgram& program = runtime.load(graph);
  runtime.initialize(program, 0);
  const Tensor x(graph->inputs.front().type);
  std::array<TensorMap, kMaxStepsInFlight> results;
  std::vector<double> times;
  const auto begin = [&](int step) {
    runtime.begin_step(program, {{"x", &x}}, results[step % kMaxStepsInFlight]);
  };
  begin(0);
  for (int step = 0; step < kFirst + steps; ++step) {
    begin(step + 1);
    const Seconds time = runtime.end_step();
    if (step >= kFirst) times.push_back(time.value());
  }
  runtime.end_step();
  return median(times);
}

/// A lower bound of the time of a step: the slowest cycle of waits.
double min_period(const std::shared_ptr<const TaskGraph>& graph) {
  const TaskActors actors = find_actors(graph, ranks(*graph));
  std::vector<double> times(static_cast<size_t>(actors.rank_count()) * graph->tasks.size(), 0);
  for (int rank = 0; rank < actors.rank_count(); ++rank)
    for (TaskId task : order_of(actors, rank))
      times[actors.actor_id(rank, task)] = time_asleep(graph->tasks[task]).value();
  return find_slowest_cycle(make_marked_graph(actors, orders_of(actors)), times).period;
}

struct Setup {
  PipelineKind kind;
  int ranks = 2;
  bool equal = true;
  bool mixed = false;
};

/// Forward and both gradients take `unit` each; or one stage is slower and each stage has a
/// different share of the backward.
std::vector<StageWork> stages_of(const Setup& setup, double unit) {
  std::vector<StageWork> stages;
  const int count = static_cast<int>(ranks_for(setup.kind, setup.ranks).size());
  for (int s = 0; s < count; ++s) {
    const double slow = !setup.equal && s == count / 2 ? 1.6 : 1;
    const double tilt = setup.equal ? 0 : 0.2 * (s % 3);
    stages.push_back({Seconds(unit * slow), Seconds(unit * (slow + tilt)), Seconds(unit * slow)});
  }
  return stages;
}

double compare(const Setup& setup, double unit, int steps) {
  const int64_t micro_batches = 2 * setup.ranks;
  const auto graph = std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages_of(setup, unit), {ranks_for(setup.kind, setup.ranks), setup.mixed},
                        micro_batches, setup.kind)
          .tasks);
  const Simulation simulated = simulate_sleep(graph, 2, kFake);
  const double measured = measured_step(graph, steps), ratio = measured / simulated.step.value();
  double span_bubble = 0;
  for (const RankTimes& rank : simulated.ranks)
    span_bubble = std::max(span_bubble, rank.bubble_of_span());
  fmt::print(
      "{:12} p={} m={} {:8} {:15} simulated {:7.1f} ms, measured {:7.1f} ms, ratio {:.4f}; bubble "
      "of the step {:.3f}, of a rank {:.3f}\n",
      to_text(setup.kind), setup.ranks, micro_batches, setup.equal ? "equal" : "unequal",
      setup.mixed ? "hosts + devices" : "hosts", 1e3 * simulated.step.value(), 1e3 * measured,
      ratio, simulated.bubble(), span_bubble);
  std::fflush(stdout);
  return std::abs(ratio - 1);
}

/// Steps with and without a barrier between them.
double compare_periods(const Setup& setup, double unit, int steps) {
  const int64_t micro_batches = 2 * setup.ranks;
  const std::vector<StageWork> stages = stages_of(setup, unit);
  const auto graph = std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages, {ranks_for(setup.kind, setup.ranks)}, micro_batches, setup.kind)
          .tasks);
  const Simulation barrier = simulate_sleep(graph, 2);
  const double smallest = min_period(graph), measured = measured_period(graph, steps),
               ratio = measured / smallest;
  double work = 0;
  for (const RankTimes& rank : barrier.ranks) work += rank.compute.value() / setup.ranks;
  fmt::print(
      "{:12} p={} m={} {:8} a step {:7.1f} ms; without a pause: least {:7.1f} ms, measured {:7.1f} "
      "ms, ratio {:.4f}; bubble {:.3f}, not "
      "{:.3f}\n",
      to_text(setup.kind), setup.ranks, micro_batches, setup.equal ? "equal" : "unequal",
      1e3 * barrier.step.value(), 1e3 * smallest, 1e3 * measured, ratio, 1 - work / smallest,
      barrier.bubble());
  std::fflush(stdout);
  return std::abs(ratio - 1);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const double unit = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;  // a forward, in milliseconds
  const int steps = argc > 2 ? std::atoi(argv[2]) : 3;
  fmt::print("overlapping steps\n");
  double worst_period = 0;
  for (const PipelineFacts& facts : pipeline_schedules())
    for (bool equal : argc > 3 ? std::vector<bool>{} : std::vector<bool>{true, false})
      worst_period =
          std::max(worst_period, compare_periods({facts.kind, 4, equal}, unit, 2 * steps));
  fmt::print("the largest difference is {:.2f}%\n\nsteps with a barrier\n", 100 * worst_period);
  double worst = 0;
  const std::string_view only = argc > 3 ? argv[3] : "";
  for (const PipelineFacts& facts : pipeline_schedules())
    for (int ranks : only.empty() || only == facts.name ? std::vector{2, 4} : std::vector<int>{})
      for (bool equal : {true, false})
        for (bool mixed : {false, true})
          worst = std::max(worst, compare({facts.kind, ranks, equal, mixed}, unit, steps));
  fmt::print("the largest difference is {:.2f}%\n", 100 * worst);
}
