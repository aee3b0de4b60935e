#include "tools/cli/internal/print/plan/plan_search_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "ir/precision/precision.h"
#include "planner/search/answers/axis_levels.h"
#include "planner/search/answers/pareto_front.h"
#include "planner/search/candidates/step_floor.h"
#include "planner/search/candidates/step_terms.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/measured_text.h"
#include "tools/cli/internal/print/runtime_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

/// Of the difference of two steps: smaller terms are not told.
constexpr double kToldShare = 0.02;
/// Variants of a plan, such as other cuts of its stages, whose steps differ by less are one row.
constexpr double kVariantShare = 0.001;
/// Alternatives in the five lines.
constexpr size_t kToldAlternatives = 3;

/// By axis of a plan the levels of the cluster over which it exchanges.
Document axes_document(const Plan& plan, const Cluster& cluster) {
  Document document{Document::Table()};
  for (const AxisLevels& axis : axis_levels(plan, cluster)) {
    Document levels{Document::List()};
    for (const std::string& level : axis.levels) levels.append(level);
    document[axis.axis] = std::move(levels);
  }
  return document;
}

std::string memory_text(const EvaluatedCandidate& candidate) {
  const RankMemoryNeed& memory = candidate.fullest.memory;
  return to_text(memory.all()) + " of " + to_text(memory.capacity);
}

/// "on 4 devices"; "with 9 ranks on 4 cores" where ranks share cores.
std::string devices_text(const Planned& planned, int ranks) {
  const int devices = planned.cluster->device_count();
  return ranks > devices ? "with " + counted(ranks, "rank") + " on " + counted(devices, "core")
                         : "on " + counted(ranks, "device");
}

/// The device on which the serial plan runs, for comparison: the first one, whose type matters
/// where there are others.
std::string first_device_text(const Cluster& cluster) {
  return cluster.description().types.size() == 1 ? "device" : cluster.type(0).name;
}

const EvaluatedCandidate* one_device_of(const Planned& planned) {
  return planned.result.find(Candidate::Source::kOneDevice);
}

/// The candidate that obeys the constraints and lacks the least memory, when none fits.
const EvaluatedCandidate* nearest_of(const Planned& planned) {
  const auto& list = planned.result.candidates;
  return list.empty() ? nullptr : &list.front();
}

/// Does the best plan come from the cache?
bool is_cached(const Planned& planned) {
  return planned.best() && planned.best()->candidate.source == Candidate::Source::kCached;
}

std::string missing_text(const EvaluatedCandidate& candidate) {
  return fmt::format("rank {} on {} lacks {}", candidate.fullest.rank, candidate.fullest.device,
                     to_text(candidate.fullest.missing()));
}

std::string why_text(const Planned& planned, const EvaluatedCandidate& candidate) {
  std::vector<std::string> parts;
  if (!candidate.fits()) parts.push_back("does not fit: " + missing_text(candidate));
  if (!obeys(candidate.candidate, planned.constraints)) parts.push_back("for comparison");
  const EvaluatedCandidate* best = planned.best();
  if (best == &candidate) parts.push_back("the best plan");
  if (best && best != &candidate && candidate.is_simulated)
    parts.push_back(difference_text(*planned.cluster, candidate, *best));
  return join(parts, "; ");
}

std::string speed_text(const Planned& planned, const EvaluatedCandidate& candidate) {
  const EvaluatedCandidate* one = one_device_of(planned);
  if (!one) return "";
  return fmt::format("{:.3g}", one->step().value() / candidate.step().value());
}

Document parts_document(const Planned& planned, const EvaluatedCandidate& candidate) {
  const MeanBreakdown& parts = candidate.parts;
  const StepTerms terms = step_terms(*planned.cluster, candidate);
  Document document;
  document["compute_seconds"] = parts.compute.value();
  document["exposed_seconds"] = Document::Table{};
  for (const auto& [axes, time] : parts.exposed)
    document["exposed_seconds"][axes.empty() ? "between meshes" : axes] = time.value();
  document["within_machines_seconds"] = terms.within_machines.value();
  document["between_machines_seconds"] = terms.between_machines.value();
  document["idle_seconds"] = parts.idle.value();
  return document;
}

Document candidate_document(const Planned& planned, const EvaluatedCandidate& candidate) {
  Document document;
  document["name"] = candidate.candidate.name;
  document["source"] = std::string(to_text(candidate.candidate.source));
  document["ranks"] = candidate.ranks();
  document["obeys"] = obeys(candidate.candidate, planned.constraints);
  document["fits"] = candidate.fits();
  if (!candidate.is_simulated) document["bound_seconds"] = candidate.step().value();
  document["peak_bytes"] = candidate.fullest.memory.all().value();
  document["reserve_bytes"] = candidate.fullest.memory.reserve.value();
  document["capacity_bytes"] = candidate.fullest.memory.capacity.value();
  document["missing_bytes"] = std::max<int64_t>(candidate.fullest.missing().value(), 0);
  document["fullest_rank"] = candidate.fullest.rank;
  document["fullest_device"] = candidate.fullest.device;
  if (!candidate.is_simulated) return document;
  document["step_seconds"] = candidate.step().value();
  document[planned.unit + "s_per_s"] = planned.units_per_second(candidate);
  document["mfu"] = planned.utilization(candidate);
  document["exchanges"] = candidate.traffic.exchanges;
  document["sent_bytes"] = candidate.traffic.bytes.value();
  document["max_sent_bytes"] = candidate.traffic.max_bytes.value();
  document["messages"] = candidate.traffic.messages;
  document["max_messages"] = candidate.traffic.max_messages;
  document["parts"] = parts_document(planned, candidate);
  return document;
}

std::string unusable_text(const PlanSearchResult& result) {
  if (result.unusable.empty()) return "";
  std::string text = "\nImpossible for this model\n";
  for (const UnusableCandidate& candidate : result.unusable)
    text += "  " + candidate.name + ": " + candidate.reason + "\n";
  return text;
}

/// The name without the number of a variant: "zb-v" of "zb-v (3)".
std::string name_without_variant(const std::string& name) {
  const size_t open = name.rfind(" (");
  if (open == std::string::npos || !name.ends_with(")")) return name;
  const std::string number = name.substr(open + 2, name.size() - open - 3);
  const bool is_number =
      !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? name.substr(0, open) : name;
}

/// How many of the candidates from `first` on are variants of it whose steps are within
/// kVariantShare. The best plan is a row of its own, and so are plans that the user gave.
size_t variant_count(const Planned& planned, size_t first) {
  const auto& list = planned.result.candidates;
  const auto stands_alone = [&](size_t i) {
    return planned.best() == &list[i] || !list[i].is_simulated || !list[i].fits() ||
           list[i].candidate.source == Candidate::Source::kCompared;
  };
  const std::string name = name_without_variant(list[first].candidate.name);
  size_t end = first + 1;
  while (!stands_alone(first) && end < list.size() && !stands_alone(end) &&
         name_without_variant(list[end].candidate.name) == name &&
         list[end].step().value() <= (1 + kVariantShare) * list[first].step().value())
    ++end;
  return end - first;
}

ReportedTable ranking_table(const Planned& planned) {
  ReportedTable table{
      "Compared",
      {"plan", "ranks", "step", "speed", "memory", "sent", "messages", "MFU", "why"},
      "lrrrrrrrw"};
  const auto& candidates = planned.result.candidates;
  for (size_t i = 0, variants = 1; i < candidates.size(); i += variants) {
    const EvaluatedCandidate& candidate = candidates[i];
    variants = variant_count(planned, i);
    const std::string name =
        variants == 1 ? candidate.candidate.name
                      : fmt::format("{}, {} variants",
                                    name_without_variant(candidate.candidate.name), variants);
    const std::string ranks = std::to_string(candidate.ranks());
    const std::string memory = to_text(candidate.fullest.memory.all());
    if (candidate.is_simulated)
      table.rows.push_back({name, ranks, step_text(candidate.step()),
                            speed_text(planned, candidate), memory,
                            to_text(candidate.traffic.bytes), grouped(candidate.traffic.messages),
                            fmt::format("{:.1f}%", 100 * planned.utilization(candidate)),
                            why_text(planned, candidate)});
    else
      table.rows.push_back({name, ranks, "> " + step_text(candidate.step()), "", memory, "", "", "",
                            why_text(planned, candidate)});
  }
  return table;
}

/// Without rows when the best plan has least memory, too.
ReportedTable front_table(const Planned& planned) {
  ReportedTable table{"Less memory takes more time", {"plan", "step", "memory"}, "lrr"};
  const std::vector<size_t> front = pareto_front(planned.result, planned.constraints);
  if (front.size() < 2) return table;
  for (size_t at : front) {
    const EvaluatedCandidate& candidate = planned.result.candidates[at];
    table.rows.push_back({candidate.candidate.name, step_text(candidate.step()),
                          to_text(candidate.fullest.memory.all())});
  }
  return table;
}

std::string plain(const ReportedTable& reported) {
  TextTable table(reported.header, reported.alignment);
  for (const std::vector<std::string>& row : reported.rows) table.add(row);
  return table.text();
}

std::string front_text(const Planned& planned) {
  const ReportedTable table = front_table(planned);
  return table.rows.empty() ? "" : "\n" + table.title + "\n" + plain(table);
}

std::string excluded_text(const PlanSearchResult& result) {
  if (result.excluded.empty()) return "";
  std::string text = "\nExcluded: the kernels alone take longer than the step of the best plan\n";
  for (const ExcludedCandidate& candidate : result.excluded)
    text += "  " + candidate.name + ": at least " + step_text(candidate.bound) + "\n";
  return text;
}

Document excluded_document(const PlanSearchResult& result) {
  Document list = Document::List{};
  for (const ExcludedCandidate& candidate : result.excluded) {
    Document item;
    item["name"] = candidate.name;
    item["source"] = std::string(to_text(candidate.source));
    item["ranks"] = candidate.ranks;
    item["bound_seconds"] = candidate.bound.value();
    list.append(std::move(item));
  }
  return list;
}

/// Its times are sums without overlap, so they may be above the step of the plan.
Document problem_document(const SearchedProblem& problem) {
  Document document;
  document["seconds"] = problem.time.value();
  document["bound_seconds"] = problem.bound.value();
  document["gap"] = problem.gap();
  document["left_out_strategies"] = problem.dropped_strategies;
  return document;
}

/// What the search did: how many candidates of each kind there were, and what became of them.
ReportedTable search_table(const Planned& planned) {
  const PlanSearchResult& result = planned.result;
  ReportedTable table{"Search", {"candidates", "number", "why"}, "lrw"};
  const auto add = [&](const char* what, int64_t count, const char* why) {
    if (count > 0) table.rows.push_back({what, grouped(count), why});
  };
  int64_t simulated = 0, unfit = 0;
  for (const EvaluatedCandidate& candidate : result.candidates)
    ++(candidate.fits() ? simulated : unfit);
  add("compiled and simulated", simulated, "they fit; the fastest that obeys is the best plan");
  add("compiled, do not fit", unfit, "a device lacks memory");
  add("excluded", std::ssize(result.excluded),
      "their kernels alone take longer than the step of the best plan");
  add("impossible", std::ssize(result.unusable), "the model has nothing that they would divide");
  add("presets left out", result.left_out, "their estimates are higher than those of the others");
  add("neighbours tried", result.local_search_trials, "changes of the best plan");
  add("not tried", result.not_tried, "the search was ended before");
  return table;
}

}  // namespace

std::string verdict_line(const Planned& planned) {
  const EvaluatedCandidate* best = planned.best();
  if (!best) {
    const EvaluatedCandidate* nearest = nearest_of(planned);
    if (planned.result.not_tried > 0 && (!nearest || nearest->fits()))
      return "the search was ended before it found a plan\n";
    if (!nearest) return "no plan is possible\n";
    return fmt::format("no plan fits: the nearest is {} {}, where {}: it needs {}\n",
                       nearest->candidate.name, devices_text(planned, nearest->ranks()),
                       missing_text(*nearest), memory_text(*nearest));
  }
  const std::string speed = speed_text(planned, *best);
  const std::string name =
      best->candidate.source == Candidate::Source::kOneDevice ? "serial" : best->candidate.name;
  return fmt::format("{} {}: {} a step, {} {}s/s, {}{}\n", name,
                     devices_text(planned, best->ranks()), step_text(best->step()),
                     grouped(std::llround(planned.units_per_second(*best))), planned.unit,
                     memory_text(*best),
                     speed.empty() || best->ranks() == 1
                         ? ""
                         : "; " + speed + " times one " + first_device_text(*planned.cluster));
}

std::string runtime_line(const Planned& planned) {
  if (!planned.best()) return "";
  return runtime_text(planned.cluster->description().runtime, planned.best()->step());
}

std::vector<std::string> verdict_lines(const Planned& planned) {
  const EvaluatedCandidate& best = *planned.best();
  std::vector<std::string> compared, exposed;
  std::set<std::string> told{name_without_variant(best.candidate.name)};
  for (const EvaluatedCandidate& candidate : planned.result.candidates)
    if (compared.size() < kToldAlternatives &&
        told.insert(name_without_variant(candidate.candidate.name)).second)
      compared.push_back(
          candidate.candidate.name + " " +
          (candidate.is_simulated ? step_text(candidate.step()) : "that does not fit"));
  for (const auto& [axes, time] : best.parts.exposed)
    exposed.push_back(step_text(time) + " in exchanges " +
                      (axes.empty() ? "between meshes" : "over " + axes));
  exposed.push_back(step_text(best.parts.idle) + " in waits");
  std::string verdict = verdict_line(planned);
  verdict.pop_back();
  return {std::move(verdict),
          fmt::format("compared with  {}{}",
                      counted(std::ssize(planned.result.candidates) +
                                  std::ssize(planned.result.excluded) - 1,
                              "other plan"),
                      compared.empty() ? "" : ": " + join(compared, ", ")),
          fmt::format("time           {} in kernels, {}", step_text(best.parts.compute),
                      join(exposed, ", ")),
          fmt::format("sent           {} in {} of {}", to_text(best.traffic.bytes),
                      counted(best.traffic.messages, "message"),
                      counted(best.traffic.exchanges, "exchange")),
          fmt::format("devices        {}: {}", planned.cluster_name,
                      planned.cluster->type(0).source.empty() ? planned.cluster->type(0).name
                                                              : planned.cluster->type(0).source)};
}

std::string problem_text(const Planned& planned) {
  if (!planned.best() || !planned.best()->candidate.problem) return "";
  const SearchedProblem& problem = *planned.best()->candidate.problem;
  return fmt::format(
      "search problem: its best plan takes {0}, and none takes less than {1} (gap {2:.2g}%), with "
      "kernels and exchanges one after the other; the step above overlaps them. The bound holds "
      "for "
      "the strategies of this mesh ({3} left out), not for other meshes and pipelines\n",
      step_text(problem.time), step_text(problem.bound), 100 * problem.gap(),
      grouped(problem.dropped_strategies));
}

std::string floor_text(const Planned& planned) {
  const EvaluatedCandidate* best = planned.best();
  const EvaluatedCandidate* one = one_device_of(planned);
  if (!best || !one) return "";
  const StepFloor floor = step_floor(planned.request(), planned.constraints.ranks, *one);
  if (floor.seconds() == Seconds(0)) return "";
  return fmt::format(
      "Lower bound: {} ({} roofline of {}, no communication). Best plan: {:.3g}x the bound.\n",
      step_text(floor.seconds()), floor.arithmetic < floor.memory ? "memory" : "compute",
      counted(std::min(planned.constraints.ranks, planned.cluster->device_count()), "device"),
      best->step().value() / floor.seconds().value());
}

std::string axes_text(const Planned& planned) {
  if (!planned.best() || planned.cluster->machine_count() < 2) return "";
  const std::string text = to_text(axis_levels(planned.best()->candidate.plan, *planned.cluster));
  return text.empty() ? "" : "axes on the cluster: " + text + "\n";
}

std::string changes_text(const NearestChanges& changes) {
  std::vector<std::string> texts;
  if (changes.memory > Bytes(0)) texts.push_back("devices of " + to_text(changes.memory));
  if (changes.batch) texts.push_back(fmt::format("--set train.batch={}", *changes.batch));
  if (changes.ranks) texts.push_back(fmt::format("--ranks {}", *changes.ranks));
  return texts.empty() ? "" : "would fit: " + join(texts, ", or ") + "\n";
}

Document changes_document(const NearestChanges& changes) {
  Document document;
  document["memory_bytes"] = changes.memory.value();
  document["batch"] = changes.batch ? Document(*changes.batch) : Document();
  document["ranks"] = changes.ranks ? Document(*changes.ranks) : Document();
  return document;
}

std::vector<std::string> plan_search_notes(const Planned& planned) {
  const PlanSearchResult& result = planned.result;
  std::vector<std::string> notes;
  const EvaluatedCandidate* best = planned.best();
  if (result.measured) notes.push_back(measured_note(result));
  if (std::string note = emulated_note(*planned.cluster, type_of_products(*planned.graph));
      !note.empty())
    notes.push_back(std::move(note));
  if (best && best != &result.candidates.front() && !result.measured) {
    const EvaluatedCandidate& first = result.candidates.front();
    notes.push_back(fmt::format("{} {} is faster, with {} a step{}", first.candidate.name,
                                devices_text(planned, first.ranks()), step_text(first.step()),
                                first.ranks() < best->ranks() && !planned.constraints.may_use_fewer
                                    ? "; --max-ranks lets the planner use fewer"
                                    : ""));
  }
  if (best) {
    const Plan& plan = best->candidate.plan;
    const int64_t groups = device_groups(plan);
    if (const auto stages = std::ssize(plan.meshes); groups < stages)
      notes.push_back(
          fmt::format("{} groups of devices have {} stages, {} each; pp is the number "
                      "of groups",
                      groups, stages, stages / groups));
  }
  if (best && best->candidate.estimate)
    notes.emplace_back(
        "the step is estimated, not simulated: tensor parallelism crosses machines, so that hardly "
        "any ranks behave alike");
  if (best && !best->candidate.shorter.empty())
    notes.push_back(fmt::format("{} micro-batches are predicted from steps of {} and {}",
                                best->candidate.plan.micro_batches,
                                best->candidate.shorter.front().plan.micro_batches,
                                best->candidate.shorter.back().plan.micro_batches));
  if (is_cached(planned))
    notes.push_back(
        "an earlier plan search of this model found the plan; --no-cache leaves such plans out");
  if (result.left_out > 0)
    notes.push_back(counted(result.left_out, "preset") + " with higher estimates were left out");
  if (result.not_tried > 0)
    notes.push_back(
        fmt::format("the end of the search left {} of the candidates and searches untried, so "
                    "the best plan is not reproducible",
                    result.not_tried));
  return notes;
}

std::string difference_text(const Cluster& cluster, const EvaluatedCandidate& candidate,
                            const EvaluatedCandidate& best) {
  if (&candidate == &best) return "";
  const double total = candidate.step().value() - best.step().value();
  const StepTerms a = step_terms(cluster, candidate), b = step_terms(cluster, best);
  const bool are_several = cluster.machine_count() > 1;
  const std::pair<const char*, Seconds> terms[] = {
      {"compute", a.compute - b.compute},
      {are_several ? "exchanges within machines" : "exchanges",
       a.within_machines - b.within_machines},
      {"exchanges between machines", a.between_machines - b.between_machines},
      {"waits", a.idle - b.idle}};
  std::vector<std::string> parts;
  for (const auto& [name, time] : terms)
    if (time.value() != 0 && std::abs(time.value()) >= kToldShare * std::abs(total))
      parts.push_back(name + (" " + step_difference_text(time, Seconds(total))));
  return step_difference_text(Seconds(total)) + ": " + join(parts, ", ");
}

std::string ranking_text(const Planned& planned) {
  return plain(ranking_table(planned)) + front_text(planned) + excluded_text(planned.result) +
         unusable_text(planned.result);
}

std::vector<ReportedTable> ranking_tables(const Planned& planned) {
  ReportedTable excluded{"Excluded: the kernels alone take longer than the step of the best plan",
                         {"plan", "ranks", "step, at least"},
                         "lrr"};
  for (const ExcludedCandidate& candidate : planned.result.excluded)
    excluded.rows.push_back(
        {candidate.name, std::to_string(candidate.ranks), step_text(candidate.bound)});
  ReportedTable unusable{"Impossible for this model", {"plan", "why"}, "lw"};
  for (const UnusableCandidate& candidate : planned.result.unusable)
    unusable.rows.push_back({candidate.name, candidate.reason});
  return {ranking_table(planned), front_table(planned), search_table(planned), std::move(excluded),
          std::move(unusable)};
}

Document plan_search_document(const Planned& planned) {
  const EvaluatedCandidate* best = planned.best();
  const EvaluatedCandidate* one = one_device_of(planned);
  Document document;
  document["name"] = best ? Document(best->candidate.name) : Document();
  document["source"] = best ? Document(std::string(to_text(best->candidate.source))) : Document();
  document["ranks"] = best ? Document(best->ranks()) : Document();
  document["axes"] = best ? axes_document(best->candidate.plan, *planned.cluster) : Document();
  document["step_seconds"] = best ? Document(best->step().value()) : Document();
  add_runtime(planned.cluster->description().runtime, best ? best->step() : Seconds(0), document);
  document[planned.unit + "s_per_s"] =
      best ? Document(planned.units_per_second(*best)) : Document();
  document["peak_bytes"] = best ? Document(best->fullest.memory.all().value()) : Document();
  document["reserve_bytes"] = best ? Document(best->fullest.memory.reserve.value()) : Document();
  document["mfu"] = best ? Document(planned.utilization(*best)) : Document();
  document["speedup"] =
      best && one ? Document(one->step().value() / best->step().value()) : Document();
  const SearchedProblem* problem =
      best && best->candidate.problem ? &*best->candidate.problem : nullptr;
  document["search_problem"] = problem ? problem_document(*problem) : Document();
  document["gap"] = problem ? Document(problem->gap()) : Document();  // its former place
  const bool has_floor = best && one;
  const Seconds floor =
      has_floor ? step_floor(planned.request(), planned.constraints.ranks, *one).seconds()
                : Seconds(0);
  document["floor_seconds"] = has_floor ? Document(floor.value()) : Document();
  document["lower_bound_seconds"] = document["floor_seconds"];
  document["reproducible"] =
      planned.result.not_tried == 0 && !planned.result.measured && !is_cached(planned);
  document["measured"] = measured_document(planned.result);
  document["left_out"] = planned.result.left_out;
  document["not_tried"] = planned.result.not_tried;
  document["local_search_trials"] = planned.result.local_search_trials;
  document["polish_trials"] = planned.result.local_search_trials;  // its former name
  document["alternatives"] = Document::List{};
  for (const EvaluatedCandidate& candidate : planned.result.candidates)
    document["alternatives"].append(candidate_document(planned, candidate));
  Document front{Document::List()};
  for (size_t at : pareto_front(planned.result, planned.constraints))
    front.append(planned.result.candidates[at].candidate.name);
  document["front"] = front;  // the former name of pareto_front
  document["pareto_front"] = std::move(front);
  document["excluded"] = excluded_document(planned.result);
  document["impossible"] = Document::List{};
  for (const UnusableCandidate& candidate : planned.result.unusable) {
    Document item;
    item["name"] = candidate.name;
    item["reason"] = candidate.reason;
    document["impossible"].append(std::move(item));
  }
  document["notes"] = Document::List{};
  for (const std::string& note : plan_search_notes(planned)) document["notes"].append(note);
  return document;
}

}  // namespace tessera
