// The plan that is found, beside plans that are made by hand, in measured steps: ranks are threads
// whose acts sleep until the time of a device or a link is over (tests/throttled_ranks.h), and the
// plan is found for the cluster that describes exactly these devices.
//
//     measured_choice_bench [--pipelines] [--cpu] [--steps N] [--only TEXT]
//
// A case is a configuration, a number of ranks, and devices of equal or of two speeds; each has six
// plans that are made by hand, with --pipelines eight pipelines. Printed is the measured step of
// the found plan as a multiple of the fastest measured one of the case, the found plan included.
// Kernels take what they are priced; with --cpu a multiple of the CPU time of their thread, and the
// prices are those of the machine, which is measured first. It runs in the root of the project;
// where other programs use the machine, at a real-time priority (chrt -f 10): a thread that wakes
// late counts as a slow device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../tests/throttled_ranks.h"
#include "base/error.h"
#include "base/random.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "tools/measure/machine.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

struct Model {
  const char* name;
  const char* file;
  std::vector<std::string> sets;
  const char* arithmetic;  // of a device that takes about two seconds for the step
};

const Model kModels[] = {
    {"gpt",
     "configs/gpt.toml",
     {"model.width=32", "model.context=32", "model.layers=4", "train.batch=16",
      "data.path=tests/errors/inputs/text.txt"},
     "90 Mflop/s"},
    {"mlp",
     "configs/mlp.toml",
     {"train.batch=64", "data.path=tests/errors/inputs/text.txt"},
     "60 Mflop/s"},
    {"resnet20", "configs/resnet20.toml", {"train.batch=16"}, "300 Mflop/s"},
};

struct HandMade {
  const char* model;
  int ranks;
  std::vector<const char*> plans;
};

const HandMade kHandMade[] = {
    {"gpt",
     2,
     {"dp=2", "tp=2", "sp=2", "pp=2", "pp=2,micro_batches=8",
      "pp=2,micro_batches=4,schedule=zb-h1"}},
    {"gpt", 4, {"dp=4", "tp=4", "dp=2,tp=2", "dp=2,sp=2", "pp=2,dp=2", "pp=4,micro_batches=8"}},
    {"gpt",
     8,
     {"dp=8", "dp=4,tp=2", "dp=2,tp=4", "dp=4,sp=2", "pp=2,dp=4,micro_batches=4",
      "pp=2,dp=2,tp=2"}},
    {"mlp",
     2,
     {"dp=2", "tp=2", "pp=2", "pp=2,micro_batches=2", "pp=2,micro_batches=8",
      "pp=2,micro_batches=4,schedule=zb-h1"}},
    {"mlp", 4, {"dp=4", "tp=4", "dp=2,tp=2", "pp=2,dp=2", "pp=2,tp=2", "pp=3,micro_batches=8"}},
    {"mlp", 8, {"dp=8", "tp=8", "dp=4,tp=2", "dp=2,tp=4", "pp=2,dp=4", "pp=2,tp=4"}},
    {"resnet20",
     2,
     {"dp=2", "tp=2", "sp=2", "pp=2", "pp=2,micro_batches=2", "pp=2,micro_batches=8"}},
    {"resnet20", 4, {"dp=4", "tp=4", "sp=4", "dp=2,sp=2", "dp=2,tp=2", "pp=2,dp=2"}},
    {"resnet20",
     8,
     {"dp=8", "dp=4,sp=2", "dp=2,sp=4", "dp=4,tp=2", "pp=2,dp=4,micro_batches=4", "pp=4,dp=2"}},
};

const HandMade kPipelines[] = {
    {"gpt",
     4,
     {"pp=4,micro_batches=4", "pp=4,micro_batches=8", "pp=4,micro_batches=16",
      "pp=4,micro_batches=8,schedule=zb-h1", "pp=4,micro_batches=8,schedule=zb-h2",
      "pp=2,dp=2,micro_batches=4", "pp=2,dp=2,micro_batches=8", "pp=2,tp=2,micro_batches=8"}},
    {"gpt",
     8,
     {"pp=8,micro_batches=8", "pp=8,micro_batches=16", "pp=8,micro_batches=16,schedule=zb-h1",
      "pp=4,dp=2,micro_batches=4", "pp=4,dp=2,micro_batches=8",
      "pp=4,dp=2,micro_batches=8,schedule=zb-h1", "pp=4,tp=2,micro_batches=8",
      "pp=2,dp=4,micro_batches=4"}},
    {"mlp",
     4,
     {"pp=3,micro_batches=4", "pp=3,micro_batches=8", "pp=3,micro_batches=16",
      "pp=3,micro_batches=8,schedule=zb-h1", "pp=2,dp=2,micro_batches=2",
      "pp=2,dp=2,micro_batches=4", "pp=2,dp=2,micro_batches=8", "pp=2,tp=2,micro_batches=4"}},
    {"mlp",
     8,
     {"pp=3,dp=2,micro_batches=4", "pp=3,dp=2,micro_batches=8", "pp=2,dp=4,micro_batches=2",
      "pp=2,dp=4,micro_batches=4", "pp=2,dp=4,micro_batches=4,schedule=zb-h1",
      "pp=2,dp=2,tp=2,micro_batches=4", "pp=2,tp=4,micro_batches=4", "pp=3,tp=2,micro_batches=4"}},
    {"resnet20",
     4,
     {"pp=4", "pp=4,micro_batches=2", "pp=4,micro_batches=4", "pp=4,micro_batches=8", "pp=2,dp=2",
      "pp=2,dp=2,micro_batches=2", "pp=2,dp=2,micro_batches=4", "pp=2,sp=2"}},
    {"resnet20",
     8,
     {"pp=8", "pp=8,micro_batches=4", "pp=4,dp=2", "pp=4,dp=2,micro_batches=2",
      "pp=4,dp=2,micro_batches=4", "pp=2,dp=4", "pp=2,dp=4,micro_batches=2", "pp=2,dp=2,sp=2"}},
};

struct Arguments {
  bool pipelines = false;
  bool by_cpu = false;
  int steps = 2;
  std::string only;
};

/// The devices of the ranks, and how a run is made to behave like them.
struct Throttled {
  Cluster cluster;
  ThrottleOptions options;
};

DeviceType priced_device(const std::string& arithmetic) {
  const std::string text = R"(
[device.slow]
kind = "npu"
memory = "1 GB"
rates = {arithmetic = ")" + arithmetic +
                           R"(", memory = "20 GB/s", copies = "2 GB/s", launch = "10 us"}
[[machine]]
count = 1
device = "slow"
devices = 1
)";
  return parse_cluster(parse_toml(text, "slow.toml"), "slow.toml").type(0);
}

/// Of two speeds, the second half of the ranks takes twice as long as the first.
Throttled throttled(const Model& model, int ranks, bool two_speeds, const Arguments& arguments) {
  double slowness = 1;
  if (arguments.by_cpu)
    slowness = std::max(2.0, 2.0 * ranks / std::max(1U, std::thread::hardware_concurrency()));
  std::vector<double> of_ranks(ranks, slowness);
  if (two_speeds) std::fill(of_ranks.begin() + ranks / 2, of_ranks.end(), 2 * slowness);
  static const std::optional<DeviceType> core =
      arguments.by_cpu ? std::optional(measure_machine().types.front()) : std::nullopt;
  const LinkLevel links{"network", {Seconds(5e-4), arguments.by_cpu ? 2e7 : 5e6}};
  return {
      Cluster(throttled_cluster(core ? *core : priced_device(model.arithmetic), of_ranks, links)),
      {.slowness = arguments.by_cpu ? of_ranks : std::vector<double>()}};
}

Graph graph_of(const Model& model) {
  RunConfig config = read_config_file(model.file, model.sets).run;
  set_sizes(config.model, config.data);
  return training_graph(config);
}

struct MeasuredPlan {
  std::string name;
  Seconds predicted{0}, measured{0};
  uint64_t program = 0;
};

/// The least of the steps under a candidate, which is evaluated.
MeasuredPlan measured(const PlanRequest& request, const EvaluatedCandidate& candidate,
                      const Throttled& devices, int steps) {
  Plan plan = candidate.candidate.plan;
  const auto tasks = std::make_shared<const TaskGraph>(compile_on(request, plan).tasks);
  const Deployment deployment = identity_mapping(request.cluster, plan.rank_count());
  return {candidate.candidate.name, candidate.step(),
          throttled_step(tasks, deployment, devices.options, steps), candidate.program};
}

std::vector<EvaluatedCandidate> evaluated_by_hand(const PlanRequest& request,
                                                  const HandMade& hand_made) {
  std::vector<Candidate> candidates;
  for (const char* text : hand_made.plans) try {
      candidates.push_back(
          {Candidate::Source::kCompared, text, preset_plan(parse_preset(text), request.graph)});
    } catch (const UserError& error) {
      fmt::print("  {:38} does not apply: {}\n", text, error.what_happened());
    }
  Evaluations evaluations = evaluate(request, std::move(candidates));
  for (const UnusableCandidate& unusable : evaluations.unusable)
    fmt::print("  {:38} does not apply: {}\n", unusable.name, unusable.reason);
  return std::move(evaluations.evaluated);
}

/// The step of the found plan as a multiple of the fastest one.
double run(const HandMade& hand_made, bool two_speeds, const Arguments& arguments) {
  const Model& model = *std::ranges::find_if(
      kModels, [&](const Model& each) { return std::string(each.name) == hand_made.model; });
  const Graph graph = graph_of(model);
  const Throttled devices = throttled(model, hand_made.ranks, two_speeds, arguments);
  // The thread of a rank computes and exchanges.
  const PlanRequest request{.graph = graph, .cluster = devices.cluster, .prefetches = false};
  const PlanSearchResult result =
      find_plan(request, {.constraints = constraints_of(hand_made.ranks, false)});
  std::vector<MeasuredPlan> plans{
      measured(request, result.candidates.at(result.best.value()), devices, arguments.steps)};
  for (const EvaluatedCandidate& candidate : evaluated_by_hand(request, hand_made)) {
    if (candidate.program == plans.front().program) continue;  // it has been measured
    plans.push_back(measured(request, candidate, devices, arguments.steps));
  }
  const Seconds fastest = std::ranges::min_element(plans, {}, &MeasuredPlan::measured)->measured;
  const double ratio = plans.front().measured.value() / fastest.value();
  for (const MeasuredPlan& plan : plans)
    fmt::print("  {:38} predicted {:8.2f} ms  measured {:8.2f} ms  {:.3f}{}\n", plan.name,
               1e3 * plan.predicted.value(), 1e3 * plan.measured.value(),
               plan.measured.value() / fastest.value(), &plan == &plans.front() ? "  found" : "");
  return ratio;
}

void run_all(const Arguments& arguments) {
  std::vector<double> ratios;
  for (const HandMade& hand_made :
       arguments.pipelines ? std::span<const HandMade>(kPipelines) : kHandMade)
    for (const bool two_speeds : {false, true}) {
      const std::string name = fmt::format("{} on {} ranks of {}", hand_made.model, hand_made.ranks,
                                           two_speeds ? "two speeds" : "equal speeds");
      if (name.find(arguments.only) == std::string::npos) continue;
      fmt::print("{}\n", name);
      ratios.push_back(run(hand_made, two_speeds, arguments));
      std::fflush(stdout);
    }
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  fmt::print(
      "{} cases, {}: the found plan takes {:.3f} times the fastest one in the median, "
      "{:.3f} times at worst\n",
      ratios.size(), arguments.by_cpu ? "CPU time" : "modelled time", ratios[ratios.size() / 2],
      ratios.back());
}

Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--pipelines")
      arguments.pipelines = true;
    else if (text == "--cpu")
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
  tessera::run_all(tessera::arguments_of(argc, argv));
}
