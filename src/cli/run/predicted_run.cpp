#include "cli/run/predicted_run.h"

#include <algorithm>

#include "cluster/cluster_file.h"
#include "config/config.h"
#include "engine/program_plans.h"
#include "network/family.h"
#include "network/graphs.h"

namespace tessera {
namespace {

StepWork work_of(const Network& network, const Graph& graph) {
  return {units_per_batch(network, graph), network.language ? "token" : "sample",
          Flops(model_flops(graph))};
}

/// The evaluation program of an engine that trains.
std::shared_ptr<const TaskGraph> evaluation_tasks(const Network& network, const RunConfig& config,
                                                  const Plan& plan, const Compiled& training) {
  const Graph graph = graph_of(Purpose::kEvaluate, network, training_settings(config), 1);
  CompileOptions options;
  options.section = section_of(Purpose::kEvaluate);
  return std::make_shared<const TaskGraph>(
      compile(graph, plan_beside(training, graph, plan), options).tasks);
}

}  // namespace

double PredictedRun::units_per_second() const {
  return static_cast<double>(work.units) / prediction.step.value();
}

double PredictedRun::mfu() const {
  return work.flops.value() / (prediction.step.value() * prediction.peak_flops_per_second);
}

size_t PredictedRun::fullest() const {
  const auto share = [](const RankMemoryNeed& memory) {
    return static_cast<double>(memory.all().value()) / static_cast<double>(memory.capacity.value());
  };
  return std::ranges::max_element(prediction.memory, {}, share) - prediction.memory.begin();
}

NamedCluster named_cluster(const std::string& file_or_line) {
  auto cluster = std::make_shared<const Cluster>(cluster_of(file_or_line));
  const std::string& name = cluster->description().name;
  return {cluster, name.empty() ? file_or_line : name};
}

PredictedRun predict_run(const RunConfig& config, const Plan& plan, const Graph& graph,
                         std::shared_ptr<const Compiled> compiled, const NamedCluster& cluster) {
  const Network network = network_of(config.model);
  PredictedRun run{.cluster = cluster.cluster,
                   .cluster_name = cluster.name,
                   .deployment = in_order(*cluster.cluster, plan.rank_count()),
                   .work = work_of(network, graph),
                   .prediction = {}};
  PredictOptions options;
  options.prefetch_exchanges = cluster.cluster->type(0).kind != HardwareKind::kCpu;
  options.explains = true;
  if (config.data.held_out > 0)
    options.beside.push_back(evaluation_tasks(network, config, plan, *compiled));
  const std::shared_ptr<const TaskGraph> tasks(compiled, &compiled->tasks);
  run.prediction = predict_step(tasks, run.deployment, options);
  return run;
}

}  // namespace tessera
