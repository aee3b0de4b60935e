#include "tools/cli/internal/run/automatic_plan.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/count_text.h"
#include "tools/cli/internal/print/plan/measured_text.h"
#include "tools/cli/internal/print/plan/plan_search_text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/earlier_plans.h"
#include "tools/cli/internal/run/fixed_decisions.h"
#include "tools/cli/internal/run/measured_plans.h"
#include "tools/cli/internal/run/named_cluster.h"
#include "tools/cli/internal/run/this_machine.h"

namespace tessera {
namespace {

void use_online_cores(ClusterDescription& description) {
  MachineGroup& machine = description.machines.front();
  DeviceType& core = description.types.front();
  const int64_t memory = core.memory.value() * machine.devices;
  machine.devices = std::max(machine.devices, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  core.memory = Bytes(memory / machine.devices);
}

[[noreturn]] void refuse_without_fit(const Planned& planned) {
  std::string verdict = verdict_line(planned);
  verdict.pop_back();
  throw UserError("--plan auto found no plan on " + planned.cluster_name, verdict,
                  "use more devices, a smaller batch (--set train.batch=...), or devices "
                  "of more memory; tessera plan lists what was tried",
                  ExitCode::kNoPlan);
}

Document found(const ConfigFile& file, int ranks, const AutomaticOptions& options) {
  Planned planned = automatic_plan_search(file, ranks, options);
  if (options.measure_top) check_can_measure(*planned.cluster, planned.cluster_name);
  planned.local_search_trials = options.local_search.value_or(0);
  const EarlierPlans earlier(options.no_cache ? std::nullopt : cache_folder());
  if (!options.measure_top)  // what is measured depends on the moment, too
    if (const std::optional<Document> kept = earlier.result(planned)) return *kept;
  find_result(planned, {.earlier = earlier.candidates(planned)});
  if (!planned.best()) refuse_without_fit(planned);
  if (options.measure_top) measure_best(planned, *options.measure_top);
  const Document document = cached_document(planned);
  if (!options.measure_top) earlier.keep(planned, document);
  return document;
}

}  // namespace

AutomaticPlan find_automatic_plan(const ConfigFile& file, int ranks,
                                  const AutomaticOptions& options) {
  if (options.measure_top && options.from_leader)
    refuse_usage("--measure-top is given in a run of several processes",
                 "plans are measured with their ranks as threads of one process",
                 "plan in one process with tessera plan --measure-top K --out plan.json, and run "
                 "it with --plan plan.json");
  const auto make = [&] { return to_json(found(file, ranks, options)); };
  const std::string text = options.from_leader ? options.from_leader(make) : make();
  const Document document = parse_json(text, "the plan of the leader");
  return {plan_of(document), verdict_of(document)};
}

Plan automatic_plan(const ConfigFile& file, int ranks, const AutomaticOptions& options) {
  AutomaticPlan found = find_automatic_plan(file, ranks, options);
  std::string indent = "plan auto: ";
  for (const std::string& line : found.verdict) {
    tell(indent + line + "\n");
    indent = "           ";
  }
  return std::move(found.plan);
}

Planned automatic_plan_search(const ConfigFile& file, int ranks, const AutomaticOptions& options) {
  const auto cluster = cluster_for(options);
  const std::string& name = cluster->description().name;
  Planned planned =
      to_be_planned(file.run, cluster, name.empty() ? options.cluster.value_or("") : name);
  identity_mapping(*cluster, ranks);
  planned.constraints = fixed_decisions(file, "", *planned.graph, ranks, false);
  return planned;
}

std::shared_ptr<const Cluster> cluster_for(const AutomaticOptions& options) {
  if (options.cluster) return named_cluster(*options.cluster, options.runtime).cluster;
  ClusterDescription description = this_machine();
  // A launcher binds each process to a core, and only this one is seen.
  if (options.from_leader && !kept_machine()) use_online_cores(description);
  return std::make_shared<const Cluster>(std::move(description));
}

int default_ranks(const AutomaticOptions& options) {
  return cluster_for(options)->device_count();
}

}  // namespace tessera
