// The effect of prefetch: pipelines of two processes over MPI whose kernels sleep and whose stages
// send over a slow link; the same plan with and without prefetch, in one run, and the simulated
// time of both. Neither needs cores, so the ratio is meaningful on any machine.
//
//     mpirun -n 2 overlap_bench [MILLISECONDS OF A KERNEL] [STEPS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../tests/sleeping_pipeline.h"
#include "runtime/comm/network.h"
#include "runtime/mpi/mpi_process.h"
#include "runtime/runtime/runtime.h"
#include "slow_transport.h"

namespace tessera {
namespace {

constexpr int64_t kMicroBatches = 8;
constexpr int64_t kWidth = (1 << 20) / 4;  // a megabyte goes from stage to stage

/// A program and the times of its steps.
struct Timed {
  std::shared_ptr<const TaskGraph> graph;
  LoadedProgram* program = nullptr;
  std::vector<double> seconds = {};

  double median() {
    std::nth_element(seconds.begin(),
                     seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                     seconds.end());
    return seconds[seconds.size() / 2];
  }
};

/// An eager schedule. Under plain 1F1B a stage needs each micro-batch just when the previous stage
/// has produced it, so there is nothing to overlap.
std::shared_ptr<const TaskGraph> pipeline(double unit, Bytes overlap) {
  const std::vector<StageWork> stages(2, StageWork{Seconds(unit), Seconds(unit), Seconds(unit)});
  return std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages, {{}, false, kWidth, overlap}, kMicroBatches,
                        PipelineKind::kEagerOneForwardOneBackward)
          .tasks);
}

/// The same in the simulator.
double simulated(const Timed& timed, double transfer, bool ahead) {
  const auto time = [&](Rank, TaskId id) {
    const Task& task = timed.graph->tasks[id];
    const bool is_large = task.kind == Task::Kind::kExchange &&
                          byte_size(timed.graph->registers[task.outputs[0]].type) >= Bytes(1 << 20);
    return is_large ? Seconds(transfer) : time_asleep(task);
  };
  return simulate(timed.graph, time, {.steps = 2, .prefetch_exchanges = ahead}).step.value();
}

/// Alternates runs with and without prefetch, so that other jobs affect both alike.
void compare(const std::shared_ptr<ProcessNetwork>& network, double unit, double transfer,
             int steps) {
  Runtime runtime(std::vector<Rank>{0, 1}, {.network = network});
  Timed at_turn{pipeline(unit, Bytes(0))}, ahead{pipeline(unit, kPrefetchWindow)};
  for (Timed* timed : {&at_turn, &ahead}) {
    timed->program = &runtime.load(timed->graph);
    runtime.initialize(*timed->program, 1);
  }
  const Tensor x({DType::kF32, {kMicroBatches, kWidth}});
  TensorMap results;
  for (int step = 0; step <= steps; ++step)
    for (Timed* timed : {&at_turn, &ahead}) {
      const auto begin = std::chrono::steady_clock::now();
      runtime.run(*timed->program, {{"x", &x}}, results);
      if (step > 0)
        timed->seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  if (network->process() != 0) return;
  fmt::print(
      "transfers of {:4.1f} ms: without prefetch {:6.1f} ms (simulated {:6.1f}), with {:6.1f} ms "
      "(simulated {:6.1f}), ratio {:.3f}\n",
      1e3 * transfer, 1e3 * at_turn.median(), 1e3 * simulated(at_turn, transfer, false),
      1e3 * ahead.median(), 1e3 * simulated(ahead, transfer, true),
      ahead.median() / at_turn.median());
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const double unit = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 9;
  MpiProcess process;
  if (process.size() != 2) {
    if (process.process() == 0)
      std::printf("overlap_bench needs two processes: mpirun -n 2 overlap_bench\n");
    return 0;
  }
  std::unique_ptr<Transport> fast = process.transport();
  auto slow = std::make_unique<SlowTransport>(std::move(fast), 1);
  SlowTransport& link = *slow;
  const auto network = std::make_shared<ProcessNetwork>(std::move(slow));
  for (const double part : {0.1, 0.25, 0.5, 1.0}) {
    link.set_speed((1 << 20) / (part * unit));
    compare(network, unit, part * unit, steps);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run(argc, argv);
}
