// How long the compile half takes: the seconds from a configuration to its task graph, of which
// each part is timed, for models of many layers, micro-batches and ranks. Each case is compiled
// several times; the fastest run is printed, with its instructions and the ratios that say how the
// time grows with layers and ranks. Each run is a process of its own, as a user's is: within one
// process the memory of earlier runs would be warm.
//
//   ./dev bench compile [RUNS [CASE]]     5 runs of the cases whose names contain CASE
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> settings;
  Plan plan;
  std::string config = "configs/gpt.toml";
};

constexpr size_t kMaxPasses = 40;

/// Plain data, so that it can be sent from one process to another.
struct Timing {
  double graph = 0;  // forward, backward and optimizer of the serial program
  double total = 0;  // of the whole, with the graph
  double busy = 0;  // seconds of the processor: on a machine that others use, it is less than total
  int tasks = 0, registers = 0;
  size_t kernels_and_exchanges = 0;
  size_t passes = 0;
  std::array<double, kMaxPasses> of_pass = {};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- the cases ----

/// The marks of a GPT: the batch over dp, the heads and the hidden features over tp.
std::vector<Mark> gpt_marks(bool has_dp) {
  std::vector<Mark> marks;
  if (has_dp) marks.push_back(shard_tensor("{tokens,labels}", "P(\"dp\")"));
  marks.push_back(shard_tensor("tokens.weight", "P(\"tp\")"));
  marks.push_back(shard_tensor("blocks.*.attn.{q,k,v}.weight", "P(None, \"tp\")"));
  marks.push_back(shard_tensor("blocks.*.attn.{q,k,v}.bias", "P(\"tp\")"));
  marks.push_back(shard_tensor("blocks.*.attn.out.weight", "P(\"tp\")"));
  marks.push_back(shard_tensor("blocks.*.ffn.up.weight", "P(None, \"tp\")"));
  marks.push_back(shard_tensor("blocks.*.ffn.up.bias", "P(\"tp\")"));
  marks.push_back(shard_tensor("blocks.*.ffn.down.weight", "P(\"tp\")"));
  marks.push_back(shard_tensor("head.weight", "P(None, \"tp\")"));
  return marks;
}

Plan tensor_and_data_parallel(int64_t dp, int64_t tp) {
  Plan plan;
  plan.meshes =
      one_mesh(std::make_shared<Mesh>(Shape{dp, tp}, std::vector<std::string>{"dp", "tp"}));
  plan.marks = gpt_marks(true);
  return plan;
}

/// `layers` in equal stages, each of dp x tp ranks.
Plan pipeline(int64_t layers, int64_t stages, int64_t dp, int64_t tp, int64_t micro_batches) {
  Plan plan;
  plan.micro_batches = micro_batches;
  plan.marks = gpt_marks(dp > 1);
  for (int64_t s = 0; s < stages; ++s) {
    std::vector<Rank> ranks;
    for (int64_t r = 0; r < dp * tp; ++r) ranks.push_back(static_cast<Rank>(s * dp * tp + r));
    const Shape shape = dp > 1 ? Shape{dp, tp} : Shape{tp};
    std::vector<std::string> axes = {"tp"};
    if (dp > 1) axes.insert(axes.begin(), "dp");
    const std::string name = fmt::format("stage{}", s);
    plan.meshes.push_back({name, std::make_shared<Mesh>(shape, axes, ranks)});
    for (int64_t layer = s * layers / stages; layer < (s + 1) * layers / stages; ++layer)
      plan.marks.push_back(stage(fmt::format("blocks.{}.*", layer), name));
  }
  return plan;
}

std::vector<Case> cases() {
  return {
      {"24 layers, 4 ranks", {"model.layers=24"}, tensor_and_data_parallel(2, 2)},
      {"96 layers, 4 ranks", {"model.layers=96"}, tensor_and_data_parallel(2, 2)},
      {"96 layers, 512 ranks",
       {"model.layers=96", "train.batch=512"},
       tensor_and_data_parallel(128, 4)},
      {"24 layers, 32 micro-batches, pp4-tp2",
       {"model.layers=24", "train.batch=32"},
       pipeline(24, 4, 1, 2, 32)},
      {"64 layers, 16 stages, 16 micro-batches, 2048 ranks",
       {"model.layers=64", "model.heads=8", "train.batch=256"},
       pipeline(64, 16, 16, 8, 16)},
      {"gpt, 200 layers of width 4", {"model.layers=200", "model.width=4"}, serial_plan()},
      {"mlp, 200 layers of width 4",
       {"model.layers=200", "model.width=4"},
       serial_plan(),
       "configs/mlp.toml"},
  };
}

// ---- timing ----

Timing time_once(const Case& item) {
  const RunConfig config = read_config(item.config, item.settings);
  Timing timing;
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t busy = std::clock();
  const Graph graph = training_graph(config);
  timing.graph = seconds_since(start);
  const Compiled compiled = compile(graph, item.plan);
  timing.total = seconds_since(start);
  timing.busy = static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC;
  timing.tasks = compiled.tasks.tasks.size();
  timing.registers = compiled.tasks.registers.size();
  for (const Task& task : compiled.tasks.tasks)
    timing.kernels_and_exchanges += std::max<size_t>(task.steps.size(), 1);
  timing.passes = compiled.passes.size();
  for (size_t i = 0; i < compiled.passes.size(); ++i)
    timing.of_pass.at(i) = compiled.passes[i].time.value();
  return timing;
}

/// time_once in a process of its own.
Timing time_in_process(const Case& item) {
  int ends[2];
  ensure(pipe(ends) == 0, "a pipe can be made");
  const pid_t child = fork();
  ensure(child >= 0, "a process can be started");
  if (child == 0) {
    const Timing timing = time_once(item);
    _exit(write(ends[1], &timing, sizeof timing) == sizeof timing ? 0 : 1);
  }
  Timing timing;
  close(ends[1]);
  const bool is_whole = read(ends[0], &timing, sizeof timing) == sizeof timing;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  ensure(is_whole, "the compiler has run through");
  return timing;
}

/// The fastest run of each case. The cases take turns, so that they meet the same machine: one that
/// others use changes its speed within seconds. A run before each one that counts leaves the pages
/// that it needs: otherwise only what is smaller than the case before it would find them.
std::vector<Timing> fastest(const std::vector<Case>& items, int runs) {
  std::vector<std::optional<Timing>> best(items.size());
  for (int run = 0; run < runs; ++run)
    for (size_t i = 0; i < items.size(); ++i) {
      time_in_process(items[i]);
      const Timing timing = time_in_process(items[i]);
      if (!best[i] || timing.total < best[i]->total) best[i] = timing;
    }
  std::vector<Timing> found;
  for (const std::optional<Timing>& timing : best) found.push_back(*timing);
  return found;
}

void print(const Case& item, const Timing& timing) {
  const auto count = static_cast<double>(timing.kernels_and_exchanges);
  std::puts(
      fmt::format(
          "{}: {:.3f} s, of which compile {:.3f} s, busy {:.3f} s; {} instructions, {} tasks, {} "
          "registers, {:.1f} us an instruction",
          item.name, timing.total, timing.total - timing.graph, timing.busy,
          timing.kernels_and_exchanges, timing.tasks, timing.registers, 1e6 * timing.total / count)
          .c_str());
  std::string line = fmt::format("  graph {:.3f}", timing.graph);
  double passes = timing.graph;
  const std::vector<std::string_view> names = pass_names();
  for (size_t i = 0; i < timing.passes; ++i) {
    line += fmt::format("  {} {:.3f}", names[i], timing.of_pass.at(i));
    passes += timing.of_pass.at(i);
  }
  std::puts(fmt::format("{}  between {:.3f}", line, timing.total - passes).c_str());
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string wanted = argc > 2 ? argv[2] : "";
  std::vector<Case> items = cases();
  std::erase_if(items,
                [&](const Case& item) { return item.name.find(wanted) == std::string::npos; });
  const std::vector<Timing> timings = fastest(items, std::max(runs, 1));
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < items.size(); ++i) {
    print(items[i], timings[i]);
    seconds[items[i].name] = timings[i].total;
  }
  const auto print_ratio = [&](const std::string& what, const std::string& a,
                               const std::string& b) {
    if (seconds.contains(a) && seconds.contains(b))
      std::puts(fmt::format("{}: {:.2f}", what, seconds[a] / seconds[b]).c_str());
  };
  print_ratio("t(96 layers) / t(24 layers)", "96 layers, 4 ranks", "24 layers, 4 ranks");
  print_ratio("t(512 ranks) / t(4 ranks)", "96 layers, 512 ranks", "96 layers, 4 ranks");
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::main_of(argc, argv);
}
