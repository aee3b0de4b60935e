// Predicted steps beside measured ones, as docs/accuracy.md has them: the steps of pairs of a
// configuration and a plan, simulated on this machine as it was measured, and trained.
//
//     accuracy_bench [--markdown] [--rounds N] [--only TEXT] [CLUSTER]
//
// Every pair is trained in several rounds, which are interleaved, so that another job does not take
// the whole time of a pair; the shortest step of all rounds counts. Without CLUSTER the machine is
// measured at the begin of every round, since its speed changes within minutes; the shortest
// predicted step of all rounds counts as well. The pairs of bench/unseen were written after the
// prices were fitted. It runs in the root of the project.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "simulator/step/step_prediction.h"
#include "tools/measure/machine.h"
#include "training/config/config.h"
#include "training/engine/data/batch_rule.h"
#include "training/engine/engine.h"

namespace tessera {
namespace {

constexpr const char* kSeen[] = {"bert serial",
                                 "encoder_decoder serial",
                                 "gpt serial",
                                 "gpt_markov serial",
                                 "gpt_tied serial",
                                 "gru serial",
                                 "image_mlp serial",
                                 "llama serial",
                                 "lstm serial",
                                 "mlp serial",
                                 "resnet20 serial",
                                 "two_tower serial",
                                 "unet serial",
                                 "bert pp2",
                                 "bert dp=2",
                                 "encoder_decoder pp2",
                                 "gpt pp2",
                                 "gpt dp2w",
                                 "gpt tp=2",
                                 "gpt_markov dp=2",
                                 "gru pp2",
                                 "gru dp=2",
                                 "image_mlp dp=2",
                                 "llama pp2",
                                 "llama dp=2",
                                 "lstm dp=2",
                                 "lstm pp2",
                                 "mlp dp2w",
                                 "mlp pp2",
                                 "resnet20 dp2",
                                 "resnet20 pp2",
                                 "resnet20 sp2",
                                 "two_tower pp2",
                                 "two_tower dp=2",
                                 "unet dp2",
                                 "unet sp2",
                                 "two_tower pp3",
                                 "gpt dp2-tp2",
                                 "gpt dp4",
                                 "gpt tp4",
                                 "llama dp4",
                                 "mlp dp2-tp2",
                                 "mlp dp4",
                                 "bert dp4",
                                 "lstm dp4",
                                 "encoder_decoder pp2-dp2",
                                 "gpt_markov dp2-tp2",
                                 "two_tower dp2-tp2"};
constexpr const char* kUnseen[] = {"deep_narrow serial", "wide_mlp serial",   "long_context serial",
                                   "small_llama serial", "residual serial",   "deep_narrow dp=2",
                                   "wide_mlp dp=2",      "long_context dp=2", "small_llama dp=4",
                                   "residual dp=2"};

/// A configuration and a plan.
struct Pair {
  std::string name;  // "gpt dp4"
  std::string folder;
  int ranks = 0;
  Seconds predicted{std::numeric_limits<double>::infinity()};
  Seconds measured{std::numeric_limits<double>::infinity()};
  Bytes predicted_bytes{0}, peak{0}, resident{0};

  double ratio() const { return predicted.value() / measured.value(); }
  double error() const { return std::abs(ratio() - 1); }
};

Bytes resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return Bytes(resident * sysconf(_SC_PAGE_SIZE));
}

Engine engine_of(const Pair& pair) {
  const size_t space = pair.name.find(' ');
  const std::string model = pair.name.substr(0, space), plan = pair.name.substr(space + 1);
  RunConfig config = read_config_file(pair.folder + "/" + model + ".toml").run;
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  set_sizes(config.model, *data);
  const std::string file = "configs/plans/" + model + "." + plan + ".json";
  Plan chosen = serial_plan();
  if (std::filesystem::exists(file))
    chosen = read_plan(file);
  else if (plan != "serial")
    chosen = preset_plan(parse_preset(plan), training_graph(config));
  return Engine(resolved_for(config, chosen), chosen, data);
}

void predict(Pair& pair, const Engine& engine, const Cluster& cluster) {
  const auto tasks = std::make_shared<const TaskGraph>(engine.compiled().tasks);
  pair.ranks = engine.plan().rank_count();
  const StepPrediction step =
      predict_step(tasks, identity_mapping(cluster, pair.ranks), {.prefetch_exchanges = false});
  pair.predicted = std::min(pair.predicted, step.step);
  pair.predicted_bytes = Bytes(0);
  for (const RankMemoryNeed& rank : step.memory)
    pair.predicted_bytes = std::max(pair.predicted_bytes, rank.variables + rank.arena);
}

/// Trains for about half a second.
void train(Pair& pair, const Cluster& cluster) {
  Engine engine = engine_of(pair);
  predict(pair, engine, cluster);
  const auto steps = std::clamp<int64_t>(std::llround(0.5 / pair.predicted.value()), 12, 300);
  for (int64_t i = 0; i < steps; ++i) pair.measured = std::min(pair.measured, engine.step().time);
  pair.peak = std::max(pair.peak, engine.runtime().peak_bytes());
  pair.resident = std::max(pair.resident, resident_bytes());
}

double megabytes(Bytes bytes) {
  return 1e-6 * static_cast<double>(bytes.value());
}

void print_table(const std::vector<Pair>& pairs, bool markdown) {
  fmt::print(fmt::runtime(markdown
                              ? "| pair | ranks | predicted ms | measured ms | ratio | predicted "
                                "MB | peak MB | resident MB |\n|---|---|---|---|---|---|---|---|\n"
                              : "pair                      ranks predicted  measured ratio  MB "
                                "predicted     peak  resident\n"));
  for (const Pair& pair : pairs)
    fmt::print(fmt::runtime(
                   markdown ? "| {} | {} | {:.3f} | {:.3f} | {:.2f} | {:.3f} | {:.3f} | {:.0f} |\n"
                            : "{:<27} {:>3} {:>9.3f} {:>9.3f} {:>5.2f} {:>13.3f} {:>8.3f} "
                              "{:>9.0f}\n"),
               pair.name, pair.ranks, 1e3 * pair.predicted.value(), 1e3 * pair.measured.value(),
               pair.ratio(), megabytes(pair.predicted_bytes), megabytes(pair.peak),
               megabytes(pair.resident));
}

template <typename IsOfGroup>
void print_errors(const char* title, const std::vector<Pair>& pairs, const IsOfGroup& is_of_group) {
  double sum = 0, worst = 0, memory = 0;
  int count = 0;
  for (const Pair& pair : pairs) {
    if (!is_of_group(pair)) continue;
    ++count;
    sum += pair.error();
    worst = std::max(worst, pair.error());
    memory = std::max(memory, std::abs(megabytes(pair.predicted_bytes) / megabytes(pair.peak) - 1));
  }
  if (count == 0) return;
  fmt::print("{}: {} pairs, mean error {:.1f} %, worst {:.1f} %, peak bytes within {:.2f} %\n",
             title, count, 100 * sum / count, 100 * worst, 100 * memory);
}

struct Arguments {
  bool markdown = false;
  int rounds = 5;
  std::string only;
  std::optional<std::string> cluster;
};

Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--markdown")
      arguments.markdown = true;
    else if (text == "--rounds" && i + 1 < argc)
      arguments.rounds = std::stoi(argv[++i]);
    else if (text == "--only" && i + 1 < argc)
      arguments.only = argv[++i];
    else
      arguments.cluster = text;
  }
  return arguments;
}

void run(const Arguments& arguments) {
  std::vector<Pair> pairs;
  const auto add = [&](const char* name, const char* folder) {
    if (std::string(name).find(arguments.only) != std::string::npos)
      pairs.push_back({.name = name, .folder = folder});
  };
  for (const char* name : kSeen) add(name, "configs");
  for (const char* name : kUnseen) add(name, "bench/unseen");
  for (int round = 0; round < arguments.rounds; ++round) {
    const Cluster cluster =
        arguments.cluster ? cluster_of(*arguments.cluster) : Cluster(measure_machine());
    for (Pair& pair : pairs) train(pair, cluster);
  }
  const auto is_unseen = [](const Pair& pair) { return pair.folder != "configs"; };
  std::vector<Pair> unseen;
  std::ranges::copy_if(pairs, std::back_inserter(unseen), is_unseen);
  std::vector<Pair> seen;
  std::ranges::copy_if(pairs, std::back_inserter(seen), std::not_fn(is_unseen));
  print_table(seen, arguments.markdown);
  fmt::print("\nWritten after the prices were fitted:\n\n");
  print_table(unseen, arguments.markdown);
  fmt::print("\n");
  print_errors("1 and 2 ranks", pairs, [](const Pair& pair) { return pair.ranks <= 2; });
  print_errors("3 and 4 ranks", pairs, [](const Pair& pair) { return pair.ranks > 2; });
  print_errors("written after the fit", pairs, is_unseen);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::run(tessera::arguments_of(argc, argv));
}
