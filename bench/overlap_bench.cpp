// What it is worth that transfers run behind computation: pipelines of two processes over MPI whose kernels sleep, so that they need no
// core, and whose stages send megabytes to each other; the same plan with and without exchanges ahead of their turn, in one run.
//
//     mpirun -n 2 overlap_bench [MILLISECONDS OF A KERNEL] [STEPS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../tests/sleeping_pipeline.h"
#include "mpi/mpi_process.h"
#include "runtime/network.h"
#include "runtime/runtime.h"

namespace tessera {
namespace {

constexpr int64_t kMicroBatches = 8;

/// A program and what its steps took.
struct Timed {
  std::shared_ptr<const TaskGraph> graph;
  LoadedProgram* program = nullptr;
  std::vector<double> seconds = {};

  double median() {
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

std::shared_ptr<const TaskGraph> pipeline(double unit, int64_t width, Bytes overlap) {
  const std::vector<StageWork> stages(2, StageWork{Seconds(unit), Seconds(unit), Seconds(unit)});
  return std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages, {{}, false, width, overlap}, kMicroBatches, PipelineKind::kOneForwardOneBackward).tasks);
}

/// With and without in turn, so that others on the machine disturb both alike.
void compare(const std::shared_ptr<Network>& network, double unit, int64_t megabytes, int steps) {
  const int64_t width = (megabytes << 20) / 4;
  Runtime runtime({0, 1}, {.network = network});
  Timed at_turn{pipeline(unit, width, Bytes(0))}, ahead{pipeline(unit, width, kOverlapWindow)};
  for (Timed* timed : {&at_turn, &ahead}) {
    timed->program = &runtime.load(timed->graph);
    runtime.initialize(*timed->program, 1);
  }
  const Tensor whole({DType::kF32, {kMicroBatches, width}});
  TensorMap results;
  for (int step = 0; step <= steps; ++step)
    for (Timed* timed : {&at_turn, &ahead}) {
      const auto begin = std::chrono::steady_clock::now();
      runtime.run(*timed->program, {{"x", &whole}}, results);
      if (step > 0) timed->seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  if (network->member() != 0) return;
  const double asleep = simulate_sleep(ahead.graph, 2).step.value();
  fmt::print("{:2} MB a micro-batch: kernels alone {:6.1f} ms, each at its turn {:6.1f} ms, ahead {:6.1f} ms, ratio {:.3f}\n", megabytes,
             1e3 * asleep, 1e3 * at_turn.median(), 1e3 * ahead.median(), ahead.median() / at_turn.median());
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const double unit = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 9;
  MpiProcess process;
  if (process.members() != 2) {
    if (process.member() == 0) std::printf("overlap_bench wants two processes: mpirun -n 2 overlap_bench\n");
    return 0;
  }
  const auto network = std::make_shared<Network>(process.transport());
  for (const int64_t megabytes : {1, 4, 8}) compare(network, unit, megabytes, steps);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run(argc, argv);
}
