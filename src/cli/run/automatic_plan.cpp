#include "cli/run/automatic_plan.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/count_text.h"
#include "base/error.h"
#include "cli/print/measured_text.h"
#include "cli/print/plan_answer.h"
#include "cli/run/measured_plans.h"
#include "cli/run/plan_cache.h"
#include "cli/run/this_machine.h"
#include "cluster/cluster_file.h"

namespace tessera {
namespace {

constexpr const char* kPlan = "plan";
constexpr const char* kName = "name";
constexpr const char* kVerdict = "verdict";

void use_online_cores(ClusterDescription& description) {
  MachineGroup& machine = description.machines.front();
  DeviceType& core = description.types.front();
  const int64_t memory = core.memory.value() * machine.devices;
  machine.devices = std::max(machine.devices, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  core.memory = Bytes(memory / machine.devices);
}

std::shared_ptr<const Cluster> cluster_for(const AutomaticOptions& options) {
  if (options.cluster) return std::make_shared<const Cluster>(cluster_of(*options.cluster));
  ClusterDescription description = this_machine();
  // A launcher binds each process to a core, and only this one is seen.
  if (options.from_leader && !kept_machine()) use_online_cores(description);
  return std::make_shared<const Cluster>(std::move(description));
}

Plan plan_of(const Document& kept) {
  Plan plan = parse_plan(*kept.find(kPlan), "the plan that was found");
  plan.name = kept.find(kName)->as_string();
  return plan;
}

/// Whether a document of the cache has a plan for the graph.
bool is_usable(const Document& kept, const Planned& planned) {
  for (const char* key : {kPlan, kName, kVerdict})
    if (!kept.is_table() || !kept.find(key)) return false;
  if (!kept.find(kName)->is_string() || !kept.find(kVerdict)->is_list()) return false;
  try {
    const Plan plan = plan_of(kept);
    check_fits(plan, *planned.graph);
    return obeys(plan, planned.constraints);
  } catch (const UserError&) {
    return false;
  }
}

[[noreturn]] void refuse_misfit(const Planned& planned) {
  std::string verdict = verdict_line(planned);
  verdict.pop_back();
  throw UserError("--plan auto found no plan on " + planned.cluster_name, verdict,
                  "use more devices, a smaller batch (--set train.batch=...), or devices "
                  "of more memory; tessera plan lists what was tried",
                  ExitCode::kNoPlan);
}

Document found(const RunConfig& config, int ranks, const AutomaticOptions& options) {
  const auto cluster = cluster_for(options);
  const std::string& name = cluster->description().name;
  Planned planned =
      to_be_planned(config, cluster, name.empty() ? options.cluster.value_or("") : name);
  in_order(*cluster, ranks);
  if (options.measure_top) check_can_measure(*cluster, planned.cluster_name);
  planned.constraints = constraints_of(ranks, false);
  planned.polish_trials = options.polish.value_or(0);
  const PlanCache cache(options.no_cache ? std::nullopt : cache_folder());
  const std::string key = cache_key(planned);
  if (!options.measure_top)  // what is measured depends on the moment, too
    if (const auto kept = cache.find(key); kept && is_usable(*kept, planned)) return *kept;
  find_answer(planned, {}, {});
  if (!planned.best()) refuse_misfit(planned);
  if (options.measure_top) measure_best(planned, *options.measure_top);
  const Document document = cached_document(planned);
  if (!options.measure_top) cache.keep(key, document);
  return document;
}

}  // namespace

Document cached_document(const Planned& planned) {
  Document document;
  document[kPlan] = plan_document(planned);
  document[kName] = planned.best()->candidate.name;
  document[kVerdict] = Document::List{};
  for (const std::string& line : verdict_lines(planned)) document[kVerdict].append(line);
  if (planned.answer.measured)
    document[kVerdict].append("measured       " + measured_note(planned.answer));
  return document;
}

Plan automatic_plan(const RunConfig& config, int ranks, const AutomaticOptions& options) {
  if (options.measure_top && options.from_leader)
    refuse_usage("--measure-top is given in a run of several processes",
                 "plans are measured with their ranks as threads of one process",
                 "plan in one process with tessera plan --measure-top K --out plan.json, and run "
                 "it with --plan plan.json");
  const auto make = [&] { return to_json(found(config, ranks, options)); };
  const std::string text = options.from_leader ? options.from_leader(make) : make();
  const Document document = parse_json(text, "the plan of the leader");
  std::string indent = "plan auto: ";
  for (const Document& line : document.find(kVerdict)->as_list()) {
    std::cerr << indent << line.as_string() << "\n";
    indent = "           ";
  }
  return plan_of(document);
}

int default_ranks(const AutomaticOptions& options) {
  return cluster_for(options)->device_count();
}

}  // namespace tessera
