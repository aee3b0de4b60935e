// How long the simulator takes: the seconds of one step of large plans, from the compiled task
// graph to the result, with the acts that were simulated and the peak memory of the process. The
// demands are those of plain machines (sim/testing/machine_demands.h).
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

#include "base/stopwatch.h"
#include "engine/graphs.h"
#include "lower/lower.h"
#include "sim/simulate.h"
#include "sim/testing/machine_demands.h"

namespace tessera {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> settings;
  int64_t layers = 1, stages = 1, dp = 1, tp = 1, micro_batches = 1;
  bool folds_ranks = true;
};

std::vector<Case> cases() {
  const std::vector<std::string> deep = {"model.layers=96", "model.heads=8", "train.batch=64"};
  const std::vector<std::string> wide = {"model.layers=64", "model.heads=8", "train.batch=768"};
  return {
      {"64 ranks, 96 layers, 32 micro-batches, folded", deep, 96, 4, 2, 8, 32},
      {"64 ranks, 96 layers, 32 micro-batches, all ranks", deep, 96, 4, 2, 8, 32, false},
      {"1024 ranks, 16 stages, 96 micro-batches, folded", wide, 64, 16, 8, 8, 96},
  };
}

/// The batch over dp; the heads and the hidden features over tp; the layers in equal stages.
Plan plan_of(const Case& item) {
  Plan plan;
  plan.micro_batches = item.micro_batches;
  plan.marks = {shard_tensor("{tokens,labels}", "P(\"dp\")"),
                shard_tensor("tokens.weight", "P(\"tp\")"),
                shard_tensor("blocks.*.attn.{q,k,v}.weight", "P(None, \"tp\")"),
                shard_tensor("blocks.*.attn.{q,k,v}.bias", "P(\"tp\")"),
                shard_tensor("blocks.*.attn.out.weight", "P(\"tp\")"),
                shard_tensor("blocks.*.ffn.up.weight", "P(None, \"tp\")"),
                shard_tensor("blocks.*.ffn.up.bias", "P(\"tp\")"),
                shard_tensor("blocks.*.ffn.down.weight", "P(\"tp\")"),
                shard_tensor("head.weight", "P(None, \"tp\")")};
  for (int64_t s = 0; s < item.stages; ++s) {
    std::vector<Rank> ranks;
    for (int64_t r = 0; r < item.dp * item.tp; ++r)
      ranks.push_back(static_cast<Rank>(s * item.dp * item.tp + r));
    const std::string name = fmt::format("stage{}", s);
    plan.meshes.push_back(
        {name, std::make_shared<Mesh>(Shape{item.dp, item.tp}, std::vector<std::string>{"dp", "tp"},
                                      ranks)});
    for (int64_t layer = s * item.layers / item.stages; layer < (s + 1) * item.layers / item.stages;
         ++layer)
      plan.marks.push_back(stage(fmt::format("blocks.{}.*", layer), name));
  }
  return plan;
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
  const auto graph =
      std::make_shared<const TaskGraph>(compile(training_graph(config), plan_of(item)).tasks);
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
                                   .folds_ranks = item.folds_ranks,
                                   .has_timeline = false});
  const double simulated = simulating.elapsed().value();
  const double busy = busy_seconds() - busy_before;
  std::set<Rank> representatives;
  for (const RankTimes& times : run.ranks) representatives.insert(times.representative);
  std::puts(
      fmt::format(
          "{}: {:.3f} s, busy {:.3f} s; {} tasks, {} of {} ranks, {} acts, {:.0f} acts a second; "
          "peak {:.2f} GiB, {:.2f} of it the graph; simulated step {}, bubble {:.1f}%; "
          "compiled in {:.1f} s, like tasks in {:.3f} s",
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
