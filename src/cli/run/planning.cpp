#include "cli/run/planning.h"

#include <algorithm>

#include "base/count_text.h"
#include "base/error.h"
#include "cost/quantity.h"
#include "engine/graphs.h"
#include "engine/program_plans.h"
#include "network/family.h"
#include "network/graphs.h"

namespace tessera {
namespace {

/// The cluster with at most `memory` on each device.
std::shared_ptr<const Cluster> limited(const Cluster& cluster, Bytes memory) {
  ClusterDescription description = cluster.description();
  for (DeviceType& type : description.types) type.memory = std::min(type.memory, memory);
  return std::make_shared<const Cluster>(std::move(description));
}

}  // namespace

Planned to_be_planned(RunConfig config, std::shared_ptr<const Cluster> cluster,
                      std::string cluster_name, const std::optional<Bytes>& memory) {
  Planned planned;
  planned.config = std::move(config);
  set_sizes(planned.config.model, planned.config.data);
  planned.graph = std::make_shared<const Graph>(training_graph(planned.config));
  planned.cluster = memory ? limited(*cluster, *memory) : std::move(cluster);
  planned.cluster_name = std::move(cluster_name);
  const Network network = network_of(planned.config.model);
  planned.unit = network.targets.empty() ? "sample" : "token";
  planned.units = units_per_batch(network, *planned.graph);
  planned.flops = model_flops(*planned.graph);
  return planned;
}

Plan complete_plan(const Planned& planned, const EvaluatedCandidate& candidate) {
  const Plan& plan = candidate.candidate.plan;
  if (candidate.candidate.source != Candidate::Source::kSearch) return plan;
  return with_other_programs(network_of(planned.config.model), training_settings(planned.config),
                             plan);
}

Bytes read_memory(const std::string& text) {
  const auto bytes = parse_quantity(text, byte_units());
  if (!bytes || *bytes < 1)
    refuse_usage("--memory is '" + text + "'",
                 "it takes a number with a unit: " + unit_names(byte_units()),
                 "write it as in --memory 24GiB");
  return Bytes(static_cast<int64_t>(*bytes));
}

void check_memory(const Planned& planned, int ranks) {
  Bytes variables{0};
  for (const Variable& variable : planned.graph->variables())
    variables += byte_size(planned.graph->type(variable.value));
  Bytes capacity{0};
  for (int i = 0; i < ranks; ++i) {
    const DeviceType& type = planned.cluster->type(i % planned.cluster->device_count());
    capacity += type.memory - type.reserve;
  }
  if (variables <= capacity) return;
  throw UserError(
      "the model has " + to_text(variables) + " of variables, and " + counted(ranks, "device") +
          " have " + to_text(std::max(capacity, Bytes(0))) + " of memory",
      "parameters and the state of the optimizer have to fit even when every one of them is "
      "divided "
      "over all devices, without activations",
      "use more devices, devices of more memory, or a smaller model", ExitCode::kBadConfig);
}

}  // namespace tessera
