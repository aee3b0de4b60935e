#include "tools/cli/internal/run/predicted_run.h"

#include <algorithm>

#include "ir/models/graphs.h"
#include "ir/precision/precision.h"
#include "simulator/step/place_ranks.h"
#include "training/engine/programs/program_plans.h"

namespace tessera {
namespace {

StepWork work_of(const Network& network, const Graph& graph) {
  return {units_per_batch(network, graph), unit_of(network, graph), Flops(model_flops(graph))};
}

/// What the plan says that its ranks need: a type of the cluster, or a kind.
void set_hardware(const Cluster& cluster, const std::vector<std::string>& hardware,
                  MappingInput& input) {
  const std::vector<DeviceType>& types = cluster.description().types;
  for (size_t rank = 0; rank < hardware.size(); ++rank) {
    if (hardware[rank].empty()) continue;
    if (std::ranges::find(types, hardware[rank], &DeviceType::name) != types.end()) {
      input.needs[rank].type = hardware[rank];
      continue;
    }
    for (const HardwareKind kind : {HardwareKind::kCpu, HardwareKind::kGpu, HardwareKind::kNpu})
      if (to_text(kind) == hardware[rank]) input.needs[rank].kind = kind;
  }
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

PredictedRun predict_run(const Workload& work, const Plan& plan, const Compiled& compiled,
                         const NamedCluster& cluster) {
  PredictedRun run{.cluster = cluster.cluster,
                   .cluster_name = cluster.name,
                   .deployment = deployment_of(plan, cluster),
                   .work = work_of(work.network, work.graph),
                   .prediction = {}};
  PredictOptions options;
  options.prefetch_exchanges = runs_exchanges_ahead(*cluster.cluster);
  options.products = type_of_products(work.graph);
  options.has_timeline = work.has_timeline;
  options.explains = true;
  if (work.evaluates)
    options.beside.push_back(std::make_shared<const TaskGraph>(
        evaluation_tasks(work.network, work.settings, compiled, plan)));
  // The prediction keeps nothing of the task graph.
  const std::shared_ptr<const TaskGraph> tasks(std::shared_ptr<void>(), &compiled.tasks);
  run.prediction = predict_step(tasks, run.deployment, options);
  return run;
}

Deployment deployment_of(const Plan& plan, const NamedCluster& cluster) {
  const std::vector<std::string> hardware = plan.hardware();
  if (!plan.mapping || plan.mapping->cluster != cluster.name)
    return identity_mapping(*cluster.cluster, hardware);
  Deployment deployment = on_named_devices(*cluster.cluster, plan.mapping->devices);
  check_hardware(deployment, hardware);
  return deployment;
}

PredictedRun predict_mapped_run(const Workload& work, Plan& plan, const Compiled& compiled,
                                const NamedCluster& cluster, PredictedRun run) {
  MappingInput input = mapping_input(compiled.tasks, run.prediction);
  set_hardware(*cluster.cluster, plan.hardware(), input);
  MappedRanks mapped;
  mapped.mapping = map_ranks(input, *cluster.cluster);
  mapped.in_order = mapping_cost(
      input, *cluster.cluster, identity_mapping(*cluster.cluster, plan.hardware()).device_of_rank);
  mapped.step_before = run.prediction.step;
  Plan with_mapping = plan;
  with_mapping.mapping = {.cluster = cluster.name, .devices = {}};
  for (DeviceId device : mapped.mapping.devices)
    with_mapping.mapping->devices.push_back(cluster.cluster->name(device));
  PredictedRun other = predict_run(work, with_mapping, compiled, cluster);
  mapped.step_mapped = other.prediction.step;
  mapped.is_used = mapped.step_mapped <= mapped.step_before;
  if (mapped.is_used) {
    run = std::move(other);
    plan.mapping = std::move(with_mapping.mapping);
  }
  run.mapped = std::move(mapped);
  return run;
}

}  // namespace tessera
