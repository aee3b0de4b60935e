#include "tools/cli/internal/run/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/machine_order.h"
#include "cluster/cluster/sources.h"
#include "cluster/cost/quantity.h"
#include "compiler/plan/offload.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/search/answers/fewer_ranks.h"
#include "planner/search/sources/stage_hardware.h"
#include "training/automatic/auto_plan.h"
#include "training/engine/graphs.h"
#include "training/engine/programs/program_plans.h"

namespace tessera {
namespace {

/// Presets that are tried for each change of the batch or of the ranks.
constexpr int64_t kPresetsOfChanges = 8;
/// Ranks up to which the batch and the ranks are changed.
constexpr int kPresetRanks = 64;

/// The cluster with at most `memory` on each device.
std::shared_ptr<const Cluster> limited(const Cluster& cluster, Bytes memory) {
  ClusterDescription description = cluster.description();
  for (DeviceType& type : description.types) type.memory = std::min(type.memory, memory);
  return std::make_shared<const Cluster>(std::move(description));
}

/// Refuses a memory in which not even the variables fit when they are divided evenly. Of cores the
/// state of the optimizer may be in a file.
void check_memory(const Planned& planned, int ranks) {
  const bool are_cores =
      std::ranges::all_of(planned.cluster->description().types,
                          [](const DeviceType& type) { return type.kind == HardwareKind::kCpu; });
  const std::set<std::string> offloaded = offloaded_variables(
      *planned.graph, {are_cores ? Offload::Kind::kState : Offload::Kind::kNone, {}});
  Bytes variables{0};
  for (const Variable& variable : planned.graph->variables())
    if (!offloaded.contains(planned.graph->value(variable.value).name))
      variables += byte_size(planned.graph->type(variable.value));
  Bytes capacity{0};
  for (DeviceId device = 0; device < std::min(ranks, planned.cluster->device_count()); ++device) {
    const DeviceType& type = planned.cluster->type(device);
    capacity += std::max(type.memory - type.reserve, Bytes(0));
  }
  if (variables <= capacity) return;
  throw UserError(
      "the model has " + to_text(variables) + (are_cores ? " of parameters" : " of variables") +
          ", and " + counted(ranks, "device") + " have " + to_text(capacity) + " of memory",
      are_cores
          ? "parameters have to fit even when every one of them is divided over all devices, with "
            "the state of the optimizer in files and without activations"
          : "parameters and the state of the optimizer have to fit even when every one of them is "
            "divided over all devices, without activations",
      "use more devices, devices of more memory, or a smaller model", ExitCode::kNoPlan);
}

/// Refuses fixed keys with which no plan can be compiled, whatever the memory.
void check_is_possible(const Planned& planned) {
  const PlanSearchResult& result = planned.result;
  const PlanConstraints& constraints = planned.constraints;
  const bool are_fixed = !constraints.degrees.empty() || !constraints.decisions.empty();
  const bool is_possible = std::ranges::any_of(
      result.candidates,
      [&](const EvaluatedCandidate& candidate) { return obeys(candidate.candidate, constraints); });
  if (is_possible || !are_fixed || result.unusable.empty() || result.not_tried > 0) return;
  std::vector<std::string> fixed;
  for (const auto& [name, size] : constraints.degrees)
    fixed.push_back(fmt::format("{}={}", name, size));
  if (!constraints.decisions.empty()) fixed.push_back(constraints.decisions);
  const UnusableCandidate& first = result.unusable.front();
  throw UserError(fmt::format("no plan of {} can have {}: {}", counted(constraints.ranks, "rank"),
                              join(fixed, ","), first.reason),
                  first.why, first.fix, ExitCode::kBadConfig);
}

/// Another build of the program may plan otherwise.
std::string program_stamp() {
  std::error_code error;
  const std::filesystem::path program = program_file();
  const auto size = std::filesystem::file_size(program, error);
  const auto time = std::filesystem::last_write_time(program, error);
  return fmt::format("{} {} {}", version(), error ? 0 : size,
                     error ? 0 : time.time_since_epoch().count());
}

}  // namespace

Planned to_be_planned(RunConfig config, std::shared_ptr<const Cluster> cluster,
                      std::string cluster_name, const std::optional<Bytes>& memory) {
  Planned planned;
  planned.config = std::move(config);
  check_fits(planned.config);
  set_sizes(planned.config.model, planned.config.data);
  planned.graph = std::make_shared<const Graph>(training_graph(planned.config));
  planned.cluster_fingerprint = fingerprint(cluster->description());
  if (ClusterDescription ordered = in_canonical_order(cluster->description());
      ordered != cluster->description()) {
    planned.is_reordered = true;
    cluster = std::make_shared<const Cluster>(std::move(ordered));
  }
  planned.cluster = memory ? limited(*cluster, *memory) : std::move(cluster);
  planned.cluster_name = std::move(cluster_name);
  const Network network = network_of(planned.config.model);
  planned.unit = unit_of(network, *planned.graph);
  planned.units = units_per_batch(network, *planned.graph);
  planned.flops = model_flops(*planned.graph);
  return planned;
}

PlanRequest Planned::request() const {
  PlanRequest request{*graph, *cluster};
  request.graph_of_rows = [this](int64_t rows) {
    RunConfig changed = config;
    changed.train.batch = rows;
    return training_graph(changed);
  };
  if (config.data.held_out > 0)
    request.other_programs = [this](const Candidate& candidate) {
      const Network network = network_of(config.model);
      const TrainingSettings settings = training_settings(config);
      const Plan plan =
          runnable_plan(candidate, network, settings, constraints, cluster_fingerprint);
      return std::vector{std::make_shared<const TaskGraph>(
          evaluation_tasks(network, settings, placements(*graph, plan), plan))};
    };
  return request;
}

void find_result(Planned& planned, OtherCandidates others, const EvaluationOptions& evaluation) {
  check_memory(planned, planned.constraints.ranks);
  planned.constraints =
      with_hardware_of(*planned.cluster, *planned.graph, std::move(planned.constraints));
  PlanSearchOptions options{.constraints = planned.constraints,
                            .compared = std::move(others.compared),
                            .sources_of_fewer = all_searches,
                            .evaluation = evaluation,
                            .local_search_trials = planned.local_search_trials};
  options.sources.push_back({"earlier plans", "of the cache folder, for the same program",
                             [&](const auto&...) { return std::exchange(others.earlier, {}); }});
  options.sources.push_back(
      {"presets on fewer ranks", "to compare: they use fewer devices", presets_on_fewer_ranks});
  planned.result = find_plan(planned.request(), options);
  check_is_possible(planned);
}

NearestChanges nearest_changes(const Planned& planned, const std::function<bool()>& stop) {
  NearestChanges changes;
  // Those that do not fit are in the order of what they lack.
  const auto& candidates = planned.result.candidates;
  const auto nearest = std::ranges::find_if(candidates, [&](const EvaluatedCandidate& candidate) {
    return !candidate.fits() && obeys(candidate.candidate, planned.constraints);
  });
  if (nearest != candidates.end()) changes.memory = nearest->fullest.memory.all();
  if (planned.constraints.ranks > kPresetRanks) return changes;  // the search takes a minute
  const auto fits = [&](const Graph& graph, const PlanConstraints& constraints) {
    const PlanRequest request{graph, *planned.cluster};
    return find_plan(request, {.constraints = constraints,
                               .sources = {},
                               .max_presets = kPresetsOfChanges,
                               .searches_keys = false,
                               .evaluation = {.stop = stop}})
        .best.has_value();
  };
  const auto may_go_on = [&] { return !stop || !stop(); };
  RunConfig config = planned.config;
  while (!changes.batch && config.train.batch > 1 && may_go_on()) {
    config.train.batch /= 2;
    if (fits(training_graph(config), planned.constraints)) changes.batch = config.train.batch;
  }
  PlanConstraints more = planned.constraints;
  while (!changes.ranks && 2 * more.ranks <= planned.cluster->device_count() && may_go_on()) {
    more.ranks *= 2;
    if (fits(*planned.graph, more)) changes.ranks = more.ranks;
  }
  return changes;
}

Document plan_document(const Planned& planned) {
  const EvaluatedCandidate& best = *planned.best();
  Plan plan = runnable_plan(best.candidate, network_of(planned.config.model),
                            training_settings(planned.config), planned.constraints,
                            planned.cluster_fingerprint);
  if (planned.is_reordered) {
    plan.mapping = {.cluster = planned.cluster_name, .devices = {}};
    for (const DeviceId device : identity_mapping(*planned.cluster, plan.hardware()).device_of_rank)
      plan.mapping->devices.push_back(planned.cluster->name(device));
  }
  return to_document(plan, *planned.graph,
                     rewritten_fingerprint(*planned.graph, best.candidate.plan));
}

std::string cache_key(const Planned& planned) {
  const PlanConstraints& constraints = planned.constraints;
  std::string degrees;
  for (const auto& [name, size] : constraints.degrees) degrees += fmt::format("{}={},", name, size);
  if (constraints.mesh) degrees += "mesh " + to_text(*constraints.mesh);
  for (const Mark& mark : constraints.marks)
    degrees += fmt::format("\nmark {} {} {}", to_text(mark.kind), mark.pattern, mark.placement);
  return fmt::format(
      "program {}\ngraph {}\nranks {}{}\ndegrees {}\ndecisions {}\nlocal search {}\ncluster {}",
      program_stamp(), fingerprint_of(*planned.graph).graph,
      constraints.may_use_fewer ? "at most " : "", constraints.ranks, degrees,
      constraints.decisions, planned.local_search_trials,
      to_json(to_document(planned.cluster->description())));
}

Bytes read_memory(const std::string& text) {
  const auto bytes = parse_quantity(text, byte_units());
  if (!bytes || *bytes < 1)
    refuse_usage("--memory is '" + text + "'",
                 "it takes a number with a unit: " + unit_names(byte_units()),
                 "write it as in --memory 24GiB");
  return Bytes(static_cast<int64_t>(*bytes));
}

}  // namespace tessera
