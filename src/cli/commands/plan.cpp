#include "cli/commands/plan.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "base/file.h"
#include "base/on_all_cores.h"
#include "cli/print/measured_text.h"
#include "cli/print/plan_answer.h"
#include "cli/print/plan_numbers.h"
#include "cli/print/summary.h"
#include "cli/run/automatic_plan.h"
#include "cli/run/measured_plans.h"
#include "cli/run/plan_cache.h"
#include "cli/run/session.h"
#include "cluster/cluster_file.h"
#include "plan/preset.h"

namespace tessera {

namespace {

/// The summary of the best plan, as `tessera explain` prints it; its placements are checked.
std::string summary_of(const Planned& planned) {
  Plan plan = planned.best()->candidate.plan;
  const Compiled compiled = compile_on(planned.request(), plan);
  return summary_text(numbers_of(compiled, plan_summary(plan)), LikeRows(compiled.graph));
}

}  // namespace

void PlanCommand::describe(OptionParser& parser) {
  parser.argument("CONFIG", "The configuration, a TOML file", file);
  parser.required_text({"--cluster", "FILE|LINE",
                        "The devices and their links: a cluster file, or one line such as "
                        "'8xa100-80g' or '4x8xh100-sxm;ib=400Gb'"},
                       cluster);
  parser.number({"--ranks", "N", "Use exactly N devices; default: all of the cluster"}, ranks, 1);
  parser.number({"--max-ranks", "N", "Use at most N devices: as many as are fastest"}, max_ranks,
                1);
  parser.text({"--fix", "tp=2,...",
               "Degrees of parallelism that the plan must have, and other keys of a preset; or a "
               "plan file, whose marks it must have"},
              fixed);
  parser.text({"--memory", "SIZE", "The memory of a device, at most, such as 24GiB"}, memory);
  parser.texts({"--compare", "FILE", "A plan file to compare with; may be repeated"}, compared);
  parser.text({"--out,-o", "FILE", "Write the plan to this file"}, out);
  parser.number({"--polish", "N",
                 "Simulate N single changes of the best plan: the placements of a class of ops or "
                 "of a value, buckets, micro-batches; default: 3 of a pipeline, else none"},
                polish, 1);
  parser.number({"--measure-top", "K",
                 "Run the best K plans for five steps each on this machine, and take the fastest; "
                 "the cluster has to be cores of one machine"},
                measure_top, 1);
  parser.flag({"--no-cache", "", "Do not keep the plan for --plan auto"}, no_cache);
  parser.real({"--time-limit", "S",
               "Begin no further candidate after S seconds; the answer then depends on the "
               "speed of this machine"},
              time_limit, 0);
  parser.check([this] {
    if (ranks && max_ranks)
      refuse_usage("--ranks and --max-ranks are both given",
                   "--ranks is the number of devices, --max-ranks its limit", "remove one of them");
  });
  add_options(parser, overrides);
  add_options(parser, output);
}

PlanConstraints PlanCommand::constraints(const Cluster& machines) const {
  const int count = max_ranks.value_or(ranks.value_or(machines.device_count()));
  in_order(machines, count);  // refuses more ranks than devices
  if (fixed.empty() || is_preset(fixed)) return constraints_of(count, max_ranks.has_value(), fixed);
  return with_marks_of(read_plan(fixed, count), constraints_of(count, max_ranks.has_value()));
}

std::vector<Candidate> PlanCommand::compared_candidates(const Planned& planned, int count) const {
  std::vector<Candidate> list;
  for (const std::string& name : compared) {
    Plan plan = read_plan(name, count);
    check_fits(plan, *planned.graph);
    list.push_back({Candidate::Source::kCompared, name, std::move(plan)});
  }
  return list;
}

EvaluationOptions PlanCommand::evaluation() const {
  using Clock = std::chrono::steady_clock;
  EvaluationOptions options;
  options.progress = [](const std::string& name) { std::cerr << "plan: " << name << "\n"; };
  if (time_limit > 0)
    options.stop = [end = Clock::now() + std::chrono::duration<double>(time_limit)] {
      return Clock::now() >= end;
    };
  return options;
}

ExitCode PlanCommand::run(Processes&) {
  auto machines = std::make_shared<const Cluster>(cluster_of(cluster));
  const PlanConstraints wanted = constraints(*machines);
  if (out) check_can_write(*out);
  ConfigFile read = read_config_file(file, overrides.sets, wanted.ranks);
  const std::string& name = machines->description().name;
  const Plan parallel = read.plan.value_or(Plan{});
  Planned planned = to_be_planned(std::move(read.run), machines, name.empty() ? cluster : name,
                                  memory ? std::optional(read_memory(*memory)) : std::nullopt);
  planned.polish_trials = polish.value_or(0);
  if (measure_top) check_can_measure(*planned.cluster, planned.cluster_name);
  planned.constraints = parallel.marks.empty() ? wanted : with_marks_of(parallel, wanted);
  find_answer(planned, compared_candidates(planned, planned.constraints.ranks), evaluation());
  if (measure_top) measure_best(planned, *measure_top);
  const bool is_reproducible = planned.answer.not_tried == 0 && !planned.answer.measured;
  if (planned.best() && is_reproducible && compared.empty() && !no_cache)
    PlanCache(cache_folder()).keep(cache_key(planned), cached_document(planned));
  return print_answer(planned);
}

ExitCode PlanCommand::print_answer(const Planned& planned) const {
  Document document = answer_document(planned);
  std::string text = verdict_line(planned);
  for (const std::string& note : planning_notes(planned)) text += "note: " + note + "\n";
  const EvaluatedCandidate* best = planned.best();
  document["plan"] = Document();
  if (!best) {
    const NearestChanges changes = nearest_changes(planned);
    document["nearest"] = changes_document(changes);
    text += changes_text(changes);
  } else {
    std::string summary;
    on_all_cores(2, [&](int64_t i) {
      if (i == 0) document["plan"] = plan_document(planned);
      if (i == 1) summary = summary_of(planned);
    });
    if (out) {
      write_file(*out, to_json(document["plan"], 2) + "\n");
      text += "written to " + *out + "\n";
    }
    text += "\n" + summary;
  }
  print_result(output, document,
               text + "\nCompared\n" + ranking_text(planned) + measured_text(planned.answer));
  return best ? ExitCode::kDone : ExitCode::kNoPlan;
}

}  // namespace tessera
