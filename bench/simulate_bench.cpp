// How long the simulator takes: the seconds of one step of large plans, from the compiled task
// graph to the result, with the acts that were simulated and the peak memory of the process. The
// demands are those of plain machines (simulator/clock/testing/machine_demands.h).
//
//   ./dev bench simulate [CASE]     the cases whose names contain CASE
#include <fmt/format.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/threads/stopwatch.h"
#include "compiler/lower/lower.h"
#include "planner/presets/presets.h"
#include "simulator/clock/simulate.h"
#include "simulator/clock/testing/machine_demands.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> settings;  // of configs/gpt.toml
  std::string preset;
  bool uses_rank_symmetry = true;
};

std::vector<Case> cases() {
  const std::vector<std::string> deep = {"model.layers=96", "model.heads=8", "train.batch=64"};
  const std::string deep_preset = "pp=4,dp=2,tp=8,micro_batches=32,schedule=1f1b";
  return {{"64 ranks, 96 layers, 32 micro-batches, rank symmetry", deep, deep_preset},
          {"64 ranks, 96 layers, 32 micro-batches, all ranks", deep, deep_preset, false},
          {"1024 ranks, 16 stages, 96 micro-batches, rank symmetry",
           {"model.layers=64", "model.heads=8", "train.batch=768"},
           "pp=16,dp=8,tp=8,micro_batches=96,schedule=1f1b"}};
}

double busy_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// The peak of this process so far, or since the last call of forget_peak().
double peak_gigabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes)
      return kilobytes / (1024 * 1024);
  return 0;
}
void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

void simulate_case(const Case& item) {
  const RunConfig config = read_config("configs/gpt.toml", item.settings);
  Stopwatch compiling;
  const Graph graph_of_step = training_graph(config);
  const auto graph = std::make_shared<const TaskGraph>(
      compile(graph_of_step, preset_plan(parse_preset(item.preset), graph_of_step)).tasks);
  const double compiled = compiling.elapsed().value();
  forget_peak();
  const double before = peak_gigabytes();
  Stopwatch pricing;
  const Demands demands =
      machine_demands(*graph, {.ranks_per_machine = 8, .cores = 8, .bus = 100'000'000'000});
  const double priced = pricing.elapsed().value();
  Stopwatch simulating;
  const double busy_before = busy_seconds();
  const Simulation run = simulate(graph, demands,
                                  {.steps = 1,
                                   .prefetch_exchanges = true,
                                   .uses_rank_symmetry = item.uses_rank_symmetry,
                                   .has_timeline = false});
  const double simulated = simulating.elapsed().value();
  const double busy = busy_seconds() - busy_before;
  std::set<Rank> representatives;
  for (const RankTimes& times : run.ranks) representatives.insert(times.representative);
  std::puts(
      fmt::format(
          "{}: {:.3f} s, busy {:.3f} s; {} tasks, {} of {} ranks, {} acts, {:.0f} acts a second; "
          "peak {:.2f} GiB, {:.2f} of it the graph; simulated step {}, bubble {:.1f}%; "
          "compiled in {:.1f} s, identical tasks in {:.3f} s",
          item.name, simulated, busy, graph->tasks.size(), representatives.size(), run.ranks.size(),
          run.acts, static_cast<double>(run.acts) / busy, peak_gigabytes(), before,
          to_text(run.step), 100 * run.bubble(), compiled, priced)
          .c_str());
  std::fflush(stdout);
}

/// Each case in a process of its own, since the peak of its memory is printed.
int main_of(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  for (const Case& item : cases()) {
    if (item.name.find(wanted) == std::string::npos) continue;
    const pid_t child = fork();
    ensure(child >= 0, "a process can be started");
    if (child == 0) {
      simulate_case(item);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ensure(status == 0, "the simulation has run through");
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::main_of(argc, argv);
}
