#include "tools/cli/internal/commands/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text/count_text.h"
#include "base/threads/on_all_cores.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/cluster_table.h"
#include "tools/cli/internal/print/plan/explain_choice.h"
#include "tools/cli/internal/print/plan/explain_name.h"
#include "tools/cli/internal/print/plan/measured_text.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/plan/plan_report.h"
#include "tools/cli/internal/print/plan/plan_search_text.h"
#include "tools/cli/internal/print/plan/search_stages_text.h"
#include "tools/cli/internal/print/plan/stages_text.h"
#include "tools/cli/internal/print/plan/summary.h"
#include "tools/cli/internal/print/plan/target_text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/runtime_text.h"
#include "tools/cli/internal/run/automatic_plan.h"
#include "tools/cli/internal/run/earlier_plans.h"
#include "tools/cli/internal/run/fixed_decisions.h"
#include "tools/cli/internal/run/kept_answers.h"
#include "tools/cli/internal/run/measured_plans.h"
#include "tools/cli/internal/run/named_model.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {

namespace {

constexpr int64_t kLargeGraph = 20'000;  // ops

/// A plan search compiles tens of plans, each in a time that grows with the ops.
std::string large_note(const Graph& graph) {
  if (std::ssize(graph.ops()) <= kLargeGraph) return "";
  return fmt::format(
      "note: the training step has {} ops, more than {}: a plan search takes minutes; --time-limit "
      "S "
      "ends it, and --fix pp=1 leaves out the search for pipelines\n",
      grouped(std::ssize(graph.ops())), grouped(kLargeGraph));
}

/// The best plan, compiled.
struct DescribedPlan {
  std::string summary;  // as `tessera explain` prints it
  DescribedStages stages;
};

/// A runtime that joins kernels keeps other tensors than our program: a part of it for each mesh.
void set_activations(const EvaluatedCandidate& best, PlanNumbers& numbers) {
  const std::vector<NamedMesh> meshes = best.candidate.plan.placed();
  const auto is_on = [&](Rank rank, const MeshMemory& memory) {
    return std::ranges::any_of(meshes, [&](const NamedMesh& mesh) {
      return mesh.name == memory.mesh && mesh.mesh->coordinate_of(rank);
    });
  };
  const std::vector<MeshMemory> ours = numbers.memory;
  for (size_t i = 0; i < best.prediction.memory.size(); ++i) {
    const Rank rank = best.prediction.ranks.at(i).rank;
    double all = 0;
    for (const MeshMemory& memory : ours)
      if (is_on(rank, memory)) all += static_cast<double>(memory.activations.value());
    if (all == 0) continue;
    const double part = static_cast<double>(best.prediction.memory[i].arena.value()) / all;
    for (size_t m = 0; m < ours.size(); ++m)
      if (is_on(rank, ours[m]))
        numbers.memory[m].activations =
            Bytes(std::llround(part * static_cast<double>(ours[m].activations.value())));
  }
}

/// The placements are checked. Of many micro-batches a shorter step is compiled.
DescribedPlan described(const Planned& planned, bool moves_boundaries) {
  const Candidate& best = planned.best()->candidate;
  const auto describe = [&](const PlanRequest& request, Plan plan, const std::string& heading) {
    const Compiled compiled = compile_on(request, plan);
    PlanNumbers numbers = numbers_of(compiled, plan_summary(plan));
    numbers.reserve = planned.best()->fullest.memory.reserve;
    if (planned.cluster->description().runtime.fusion != Fusion::kNone)
      set_activations(*planned.best(), numbers);
    return DescribedPlan{heading + summary_text(numbers, RepeatedRows(compiled.graph)),
                         described_stages(planned, compiled, moves_boundaries)};
  };
  if (best.shorter.empty()) return describe(planned.request(), best.plan, "");
  const ShorterStep& step = best.shorter.back();
  return describe({*step.graph, *planned.cluster}, step.plan,
                  fmt::format("Of a step of {} micro-batches instead of {}, whose bubble is "
                              "smaller:\n",
                              step.plan.micro_batches, best.plan.micro_batches));
}

}  // namespace

void PlanCommand::describe(OptionParser& parser) {
  add_model_argument(parser, file);
  parser.texts({"--gpus", "NxDEVICE",
                "In place of --cluster: N devices in machines of their usual size, such as "
                "64xh100"},
               gpus);
  add_batch_option(parser, batch);
  parser.texts({"--cluster", "FILE|LINE",
                "The devices and their links: a cluster file, or one line such as '8xa100-80g' or "
                "'4x8xh100-sxm;ib=400Gb'; default: this machine, as measure --keep kept it. More "
                "than one: the best plan on each, side by side"},
               clusters);
  add_runtime_option(parser, runtime);
  parser.number({"--ranks", "N", "Use exactly N devices; default: all of the cluster"}, ranks, 1);
  parser.number({"--max-ranks", "N", "Use at most N devices: as many as are fastest"}, max_ranks,
                1);
  parser.text({"--fix", "tp=2,...",
               "Degrees of parallelism that the plan must have, and other keys of a preset; or a "
               "plan file, whose marks it must have"},
              fixed);
  parser.text({"--memory", "SIZE", "The memory of a device, at most, such as 24GiB"}, memory);
  parser.text({"--target", "NAME",
               "Plan for another program, which runs it: torchtitan, megatron or fsdp; default: "
               "free, all that our own runtime can do"},
              target);
  parser.text({"--current", "FLAGS|FILE",
               "With --target: the setting that runs now, as the flags of the target or a file of "
               "its configuration; it is compared with the best"},
              current);
  parser.flag({"--free", "",
               "With --target: search without its rules, too, and print what that would gain"},
              compares_free);
  parser.texts({"--compare", "FILE|PRESET", "A plan to compare with; may be repeated"}, compared);
  parser.text(
      {"-o,--out", "FILE", "Write the plan to this file; with --target its files to this folder"},
      out);
  parser.text({"--report", "FILE",
               "Write a page of HTML: the ranking, and the plan beside the best alternatives"},
              report);
  parser.text({"--explain", "NAME",
               "Print the price of the placement of this op or value, and what changes of the "
               "devices and of the batch would do to it"},
              explained);
  parser.flag({"--sensitivity", "",
               "Move the boundaries of the stage that binds, and plan again with one device less "
               "and one more, with half and twice the bandwidth, and with train.precision = bf16, "
               "and print what it would change"},
              changes_devices);
  parser.flag({"--stages", "",
               "Print the stages of the search: which were run, their time, the candidates that "
               "each added and the best step after it"},
              shows_stages);
  parser.number(
      {"--local-search",
       "N",
       "Simulate N other placements of the best plan, each of a class of ops or of a value; "
       "default: none",
       {"--polish"}},
      local_search, 1);
  parser.number({"--measure-top", "K",
                 "Run the best K plans for five steps each on this machine, and take the fastest; "
                 "the cluster has to be cores of one machine"},
                measure_top, 1);
  parser.flag(
      {"--no-cache", "", "Neither use answers and plans of the cache folder, nor keep them there"},
      no_cache);
  parser.real(
      {"--time-limit", "S",
       "Begin no further candidate or search after S seconds, as after SIGINT or SIGTERM; the best "
       "plan then depends on the speed of this machine"},
      time_limit, 0);
  parser.check([this] {
    if (!gpus.empty() && !clusters.empty())
      refuse_usage("--gpus and --cluster are both given", "each of them describes the devices",
                   "remove one of them");
    const bool has_several = gpus.size() > 1 || clusters.size() > 1;
    if (has_several &&
        (max_ranks || measure_top || !compared.empty() || report || explained || changes_devices ||
         shows_stages || out || !current.empty() || compares_free))
      refuse_usage("several clusters are given with an option of one plan",
                   "the best plans on several clusters are compared in a table",
                   "leave out the other option, or all clusters but one");
    if (target == "free") target.clear();
    if (target.empty() && (!current.empty() || compares_free))
      refuse_usage(
          std::string(current.empty() ? "--free" : "--current") + " is given without --target",
          "it is about the plan of another program", "add --target NAME");
    if (!target.empty() && (max_ranks || measure_top || !fixed.empty() || !compared.empty() ||
                            report || explained || changes_devices || shows_stages))
      refuse_usage("--target is given with an option of plans of our own runtime",
                   "settings of other programs have --batch, --cluster, --gpus, --ranks, --memory, "
                   "--runtime, --set, --time-limit, --current, --free and --out",
                   "leave out the other options");
    if (!target.empty()) target_named(target);
    if (ranks && max_ranks)
      refuse_usage("--ranks and --max-ranks are both given",
                   "--ranks is the number of devices, --max-ranks its limit", "remove one of them");
  });
  add_options(parser, overrides);
  add_options(parser, output);
}

/// The ranks of the plan, or with --max-ranks their limit.
int PlanCommand::rank_limit(const Cluster& machines) const {
  const int count = max_ranks.value_or(ranks.value_or(machines.device_count()));
  identity_mapping(machines, count);  // refuses more ranks than devices
  return count;
}

std::vector<Candidate> PlanCommand::compared_candidates(const Planned& planned) const {
  std::vector<Candidate> list;
  for (const std::string& name : compared) {
    const int ranks_of_rest = planned.constraints.ranks;
    Plan plan = is_preset(name) ? preset_plan(parse_preset(name), *planned.graph, ranks_of_rest)
                                : read_plan(name, ranks_of_rest);
    check_fits(plan, *planned.graph);
    identity_mapping(*planned.cluster, plan.hardware());  // refuses what the cluster lacks
    list.push_back({Candidate::Source::kCompared, name, std::move(plan)});
  }
  return list;
}

EvaluationOptions PlanCommand::evaluation() const {
  EvaluationOptions options;
  options.progress = [](const std::string& name) { tell("plan: " + name + "\n"); };
  options.improved = [](const EvaluatedCandidate& best) {
    tell("plan: the best so far is " + best.candidate.name + ", " + step_text(best.step()) +
         " a step\n");
  };
  options.has_time_limit = time_limit > 0;
  if (time_limit > 0) end_->set_limit(Seconds(time_limit));
  options.stop = [end = end_] { return end->has_come(); };
  return options;
}

ExitCode PlanCommand::print_target(Planned& planned,
                                   const std::optional<GivenSetting>& given) const {
  TargetPlanned found = find_target_plan(planned, target_named(target), given, evaluation());
  if (compares_free) {
    find_result(planned, {}, evaluation());
    if (planned.best()) found.free = *planned.best();
  }
  Document document = target_document(found);
  std::string text = target_verdict(found);
  if (found.best() && found.planned.cluster)
    text += runtime_text(planned.cluster->description().runtime, found.best()->evaluated.step());
  for (const std::string& note : found.notes) text += "note: " + note + "\n";
  if (found.best()) {
    const TargetPlan plan = found.written(found.best()->setting, file, target_verdict(found));
    document["files"] = Document::List{};
    const std::vector<TargetFile> files = target_files(plan);
    if (out) {
      std::error_code ignored;  // of writing there is a better message
      std::filesystem::create_directories(*out, ignored);
      for (const TargetFile& written : files) {
        write_output(std::filesystem::path(*out) / written.name, written.text);
        document["files"].append(written.name);
      }
      text += fmt::format("written to {}: {} files\n", *out, files.size());
    }
    const std::vector<Flag> flags = flags_of(plan);
    text += "\nFlags\n  " + flags_text(flags) + "\n";
  }
  text += target_ranking(found);
  print_result(output, document, text);
  return found.best() ? ExitCode::kDone : ExitCode::kNoPlan;
}

Planned PlanCommand::planned_on(const ConfigFile& read, const std::string& line,
                                const std::shared_ptr<const Cluster>& machines) const {
  const std::string& name = machines->description().name;
  return to_be_planned(read.run, machines, name.empty() ? line : name,
                       memory ? std::optional(read_memory(*memory)) : std::nullopt);
}

ExitCode PlanCommand::compare_clusters() const {
  std::vector<std::shared_ptr<const Cluster>> machines;
  int most = 0;  // of all, which a usual batch is made for
  for (const std::string& line : clusters) {
    machines.push_back(cluster_for({.cluster = line, .runtime = runtime}));
    most = std::max(most, rank_limit(*machines.back()));
  }
  const ConfigFile read = named_model(file, overrides.sets, most, batch);
  std::vector<ClusterRow> rows;
  std::string unit;
  for (size_t i = 0; i < clusters.size(); ++i) {
    Planned planned = planned_on(read, clusters[i], machines[i]);
    const int devices = rank_limit(*machines[i]);
    unit = planned.unit;
    planned.constraints = fixed_decisions(read, fixed, *planned.graph, devices, false);
    planned.local_search_trials = local_search.value_or(0);
    if (target.empty()) {
      find_result(planned, {}, evaluation());
      const EvaluatedCandidate* best = planned.best();
      rows.push_back(cluster_row(planned, devices, best ? best->candidate.name : "", best));
      continue;
    }
    const TargetPlanned found =
        find_target_plan(planned, target_named(target), std::nullopt, evaluation());
    const TargetResult::Simulated* best = found.best();
    rows.push_back(cluster_row(planned, devices, best ? best->evaluated.candidate.name : "",
                               best ? &best->evaluated : nullptr));
  }
  print_result(output, clusters_document(rows), clusters_text(rows, unit));
  const bool has_plan =
      std::ranges::any_of(rows, [](const ClusterRow& row) { return row.step.has_value(); });
  return has_plan ? ExitCode::kDone : ExitCode::kNoPlan;
}

ExitCode PlanCommand::run(Processes&) {
  end_ = std::make_shared<SearchEnd>();  // before there are other threads
  for (const std::string& line : gpus) clusters.push_back(line_of_devices(line));
  if (clusters.size() > 1) return compare_clusters();
  const std::optional<std::string> cluster =
      clusters.empty() ? std::nullopt : std::optional(clusters.front());
  const auto machines = cluster_for({.cluster = cluster, .runtime = runtime});
  const int count = rank_limit(*machines);
  std::optional<GivenSetting> given;
  std::vector<std::string> sets = overrides.sets;
  if (!current.empty()) {
    given = given_setting(target_named(target), current);
    const std::vector<std::string> of_run = sets_of(given->run);
    if (batch.empty()) sets.insert(sets.begin(), of_run.begin(), of_run.end());
  }
  const ConfigFile read = named_model(file, sets, count, batch);
  if (out && target.empty()) check_output(*out);
  if (out && !target.empty()) check_output_folder(*out);
  if (report) check_output(*report);
  Planned planned = planned_on(read, cluster.value_or("this machine"), machines);
  if (!target.empty()) {
    planned.constraints = fixed_decisions(read, "", *planned.graph, count, false);
    return print_target(planned, given);
  }
  if (explained) check_is_named(*planned.graph, *explained);
  if (measure_top) check_can_measure(*planned.cluster, planned.cluster_name);
  planned.constraints = fixed_decisions(read, fixed, *planned.graph, count, max_ranks.has_value());
  planned.local_search_trials = local_search.value_or(0);
  const KeptAnswers answers(is_kept() ? cache_folder() : std::nullopt);
  if (const std::optional<KeptAnswer> kept = answers.find(planned)) {
    tell("plan: the answer of an earlier equal request; --no-cache plans again\n");
    print_answer(*kept);
    return ExitCode::kDone;
  }
  tell(unrolled_note(planned.config.model) + large_note(*planned.graph));
  const EarlierPlans earlier(no_cache ? std::nullopt : cache_folder());
  find_result(planned, {compared_candidates(planned), earlier.candidates(planned)}, evaluation());
  if (measure_top) measure_best(planned, *measure_top);
  const bool is_reproducible = planned.result.not_tried == 0 && !planned.result.measured;
  if (planned.best() && is_reproducible && compared.empty() && !no_cache)
    earlier.keep(planned, cached_document(planned));
  return print_plan_search(planned);
}

/// Options that add to the answer, or that take what was measured or given into it.
bool PlanCommand::is_kept() const {
  return !no_cache && compared.empty() && !explained && !changes_devices && !shows_stages &&
         !report && !measure_top && time_limit == 0;
}

void PlanCommand::print_answer(const KeptAnswer& answer) const {
  std::string text = answer.verdict;
  if (out) {
    write_output(*out, to_json(*answer.document.find("plan"), 2) + "\n");
    text += "written to " + *out + "\n";
  }
  print_result(output, answer.document, text + answer.details);
}

ExitCode PlanCommand::print_plan_search(const Planned& planned) const {
  Document document = plan_search_document(planned);
  std::string text = verdict_line(planned) + runtime_line(planned);
  for (const std::string& note : plan_search_notes(planned)) text += "note: " + note + "\n";
  text += problem_text(planned) + floor_text(planned) + axes_text(planned);
  const EvaluatedCandidate* best = planned.best();
  document["plan"] = document["stages"] = Document();
  if (!best) {
    const NearestChanges changes = nearest_changes(planned, evaluation().stop);
    document["nearest"] = changes_document(changes);
    text += changes_text(changes);
  } else {
    DescribedPlan plan;
    on_all_cores(2, [&](int64_t i) {
      if (i == 0) document["plan"] = plan_document(planned);
      if (i == 1) plan = described(planned, changes_devices);
    });
    document["stages"] = stages_document(planned, plan.stages);
    if (is_kept()) {
      const KeptAnswer answer{document, text,
                              "\n" + plan.summary + stages_text(planned, plan.stages) +
                                  "\nCompared\n" + ranking_text(planned)};
      if (planned.result.not_tried == 0) KeptAnswers(cache_folder()).keep(planned, answer);
      print_answer(answer);
      return ExitCode::kDone;
    }
    if (out) {
      write_output(*out, to_json(document["plan"], 2) + "\n");
      text += "written to " + *out + "\n";
    }
    text += "\n" + plan.summary + stages_text(planned, plan.stages);
  }
  text += "\nCompared\n" + ranking_text(planned) + measured_text(planned.result);
  if (explained && best) {
    const ExplainedChoice choice = explained_choice(planned, best->candidate.plan, *explained);
    document["choice"] = choice_document(choice);
    text += choice_text(choice);
  }
  if (changes_devices && best) {
    std::vector<Sensitivity> changes = device_sensitivities(planned);
    if (std::optional<Sensitivity> precision = precision_sensitivity(planned))
      changes.push_back(*std::move(precision));
    document["changes"] = sensitivity_document(changes);
    text += sensitivity_text(changes);
  }
  if (shows_stages) {
    document["search_stages"] = search_stages_document(planned.result);
    text += search_stages_text(planned.result);
  }
  if (report && !planned.result.candidates.empty())
    write_output(*report, plan_report_html(planned, file));
  print_result(output, document, text);
  return best ? ExitCode::kDone : ExitCode::kNoPlan;
}

}  // namespace tessera
