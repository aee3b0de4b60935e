// Steps of real runs on slow devices and slow links beside predicted ones: ranks are threads whose
// acts sleep until the time of a cluster is over (tests/throttled_ranks.h).
//
//     throttle_bench [--cpu] [--steps N] [--only TEXT]
//
// First the kernels take what they are priced: what remains is when acts begin, who waits for whom,
// and how flows share links. They and the messages are so slow that a thread which wakes late
// counts little. With --cpu, kernels take a multiple of the CPU time of their thread on devices of
// two speeds; then the prices of the machine, which is measured first, count, too. The model is
// larger then: kernels of a thread that has slept take more CPU time than those that are measured
// in a loop, and the more so the shorter they are. It runs in the root of the project.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../tests/throttled_ranks.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "simulator/step/step_prediction.h"
#include "tools/measure/machine.h"
#include "training/config/config.h"
#include "training/engine/data/batch_rule.h"
#include "training/engine/engine.h"

namespace tessera {
namespace {

/// 16 rows of a small GPT.
std::shared_ptr<const TaskGraph> program(const std::string& plan, const Cluster& cluster,
                                         int width) {
  const std::vector<std::string> sets{"model.width=" + std::to_string(width), "model.context=32",
                                      "model.layers=4", "train.batch=16",
                                      "data.path=tests/errors/inputs/text.txt"};
  RunConfig config = read_config_file("configs/gpt.toml", sets).run;
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  set_sizes(config.model, *data);
  Plan chosen = serial_plan();
  if (plan != "serial") chosen = preset_plan(parse_preset(plan), training_graph(config));
  config = resolved_for(config, chosen);
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : chosen.placed()) meshes.push_back(mesh.mesh);
  chosen.cost = cost_of(identity_mapping(cluster, chosen.rank_count()), meshes);
  return std::make_shared<const TaskGraph>(compile(training_graph(config), chosen, {}).tasks);
}

Cluster slow_devices(const std::string& links) {
  const std::string text = R"(
[device.slow]
kind = "npu"
memory = "1 GB"
rates = {arithmetic = "40 Mflop/s", memory = "20 GB/s", copies = "2 GB/s", launch = "10 us"}
)" + links;
  return parse_cluster(parse_toml(text, "slow.toml"), "slow.toml");
}

struct Case {
  const char* plan;
  const char* links;
  const char* title;
  double bound;  // of the error
};

constexpr const char* kOwnLinks = R"(
[[machine]]
count = 1
device = "slow"
devices = 4
links = [{name = "own", bandwidth = "1.25 MB/s", latency = "4 ms", sharing = "mesh"}]
)";
constexpr const char* kPorts = R"(
[[machine]]
count = 1
device = "slow"
devices = 4
links = [{name = "switch", bandwidth = "1.25 MB/s", latency = "4 ms"}]
)";
constexpr const char* kBus = R"(
[[machine]]
count = 1
device = "slow"
devices = 4
links = [{name = "bus", bandwidth = "2.5 MB/s", latency = "4 ms", sharing = "bus"}]
)";
constexpr const char* kTwoMachines = R"(
[[machine]]
names = "n[0-1]"
device = "slow"
devices = 2
links = [{name = "inside", bandwidth = "5 MB/s", latency = "1 ms"}]
[[network]]
name = "network"
bandwidth = "1.25 MB/s"
latency = "4 ms"
)";

constexpr Case kCases[] = {
    {"serial", kOwnLinks, "own links", 0.03},
    {"dp=2", kOwnLinks, "own links", 0.03},
    {"tp=2", kOwnLinks, "own links", 0.03},
    {"pp=2,micro_batches=4", kOwnLinks, "own links", 0.03},
    {"pp=4,micro_batches=8", kOwnLinks, "own links", 0.03},
    {"pp=2,dp=2,micro_batches=4", kOwnLinks, "own links", 0.03},
    {"dp=4", kOwnLinks, "own links", 0.03},
    {"dp=4", kPorts, "ports", 0.05},
    {"dp=2,tp=2", kPorts, "ports", 0.05},
    {"dp=4", kBus, "bus", 0.05},
    {"dp=2,tp=2", kBus, "bus", 0.05},
    {"pp=2,dp=2,micro_batches=4", kBus, "bus", 0.05},
    {"dp=2,tp=2", kTwoMachines, "two machines", 0.05},
    {"pp=2,dp=2,micro_batches=4", kTwoMachines, "two machines", 0.05},
    {"dp=4", kTwoMachines, "two machines", 0.05},
};

/// The absolute error.
double compare(const std::string& name, const std::shared_ptr<const TaskGraph>& tasks,
               const Deployment& deployment, const ThrottleOptions& options, int steps) {
  const double predicted =
      predict_step(tasks, deployment, {.prefetch_exchanges = false}).step.value();
  const double measured = throttled_step(tasks, deployment, options, steps).value();
  const double error = predicted / measured - 1;
  fmt::print("{:44} predicted {:8.2f} ms, measured {:8.2f} ms, error {:+.2f} %\n", name,
             1e3 * predicted, 1e3 * measured, 100 * error);
  std::fflush(stdout);
  return std::abs(error);
}

struct Arguments {
  bool by_cpu = false;
  int steps = 3;
  std::string only;
};

void run_priced(const Arguments& arguments) {
  int beyond = 0, count = 0;
  double worst = 0;
  for (const Case& each : kCases) {
    const std::string name = fmt::format("{} ({})", each.plan, each.title);
    if (name.find(arguments.only) == std::string::npos) continue;
    const Cluster cluster = slow_devices(each.links);
    const auto tasks = program(each.plan, cluster, 32);
    const int ranks = static_cast<int>(tessera::ranks(*tasks).size());
    const double error =
        compare(name, tasks, identity_mapping(cluster, ranks), {}, arguments.steps);
    worst = std::max(worst, error);
    ++count;
    beyond += error > each.bound;
  }
  fmt::print("{} runs, worst error {:.2f} %, {} beyond 3 % (5 % of shared links)\n", count,
             100 * worst, beyond);
}

/// Half of the ranks are half as fast as the others.
void run_by_cpu(const Arguments& arguments) {
  const ClusterDescription machine = measure_machine();
  constexpr double kFast = 8, kSlow = 16;
  for (const char* plan :
       {"dp=2", "tp=2", "pp=2,micro_batches=4", "dp=4", "dp=2,tp=2", "pp=2,dp=2,micro_batches=4"}) {
    if (std::string(plan).find(arguments.only) == std::string::npos) continue;
    std::vector<double> slowness;
    const LinkLevel links{"network", {Seconds(5e-4), 2e7}};
    const Cluster four(throttled_cluster(machine.types.front(), {1, 1, 1, 1}, links));
    const auto tasks = program(plan, four, 192);
    const auto ranks = static_cast<int>(tessera::ranks(*tasks).size());
    for (int rank = 0; rank < ranks; ++rank) slowness.push_back(rank < ranks / 2 ? kFast : kSlow);
    const Cluster cluster(throttled_cluster(machine.types.front(), slowness, links));
    compare(fmt::format("{} ({} and {} x CPU time)", plan, kFast, kSlow), tasks,
            identity_mapping(cluster, ranks), {.slowness = slowness}, arguments.steps);
  }
}

Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--cpu")
      arguments.by_cpu = true;
    else if (text == "--steps" && i + 1 < argc)
      arguments.steps = std::stoi(argv[++i]);
    else if (text == "--only" && i + 1 < argc)
      arguments.only = argv[++i];
  }
  return arguments;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const tessera::Arguments arguments = tessera::arguments_of(argc, argv);
  if (arguments.by_cpu)
    tessera::run_by_cpu(arguments);
  else
    tessera::run_priced(arguments);
}
