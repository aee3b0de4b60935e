#include "tools/cli/internal/run/earlier_plans.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "tools/cli/internal/print/plan/measured_text.h"
#include "tools/cli/internal/print/plan/plan_search_text.h"

namespace tessera {
namespace {

constexpr const char* kPlan = "plan";
constexpr const char* kName = "name";
constexpr const char* kVerdict = "verdict";
constexpr const char* kSource = "source";
constexpr std::string_view kEarlier = "earlier ";

std::string key_of_graph(const Planned& planned, int ranks) {
  return fmt::format("graph {}\nranks {}", fingerprint_of(*planned.graph).graph, ranks);
}

bool was_preset(const Document& kept) {
  const Document* source = kept.find(kSource);
  return source && *source == Document(std::string(to_text(Candidate::Source::kPreset)));
}

/// Whether a document of the cache has a plan for the graph that obeys.
bool is_usable(const Document& kept, const Planned& planned) {
  if (!kept.is_table()) return false;
  for (const char* key : {kPlan, kName, kVerdict})
    if (!kept.find(key)) return false;
  if (!kept.find(kName)->is_string() || !kept.find(kVerdict)->is_list()) return false;
  try {
    const Plan plan = plan_of(kept);
    check_fits(plan, *planned.graph);
    return obeys(plan, planned.constraints);
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

std::optional<Document> EarlierPlans::result(const Planned& planned) const {
  std::optional<Document> kept = results_.find(cache_key(planned));
  if (kept && !is_usable(*kept, planned)) kept.reset();
  return kept;
}

std::vector<Candidate> EarlierPlans::candidates(const Planned& planned) const {
  std::vector<Candidate> list;
  const PlanConstraints& constraints = planned.constraints;
  if (!constraints.marks.empty() || !constraints.decisions.empty()) return list;
  for (int ranks = 2; ranks <= constraints.ranks; ++ranks) {
    if (!constraints.allows(ranks)) continue;
    const std::optional<Document> kept = of_graphs_.find(key_of_graph(planned, ranks));
    if (!kept || !is_usable(*kept, planned)) continue;
    Plan plan = plan_of(*kept);
    if (was_preset(*kept)) {  // the search might have found it, too
      const Preset preset = parse_preset(plan.name);
      list.push_back({Candidate::Source::kPreset, plan.name, preset_plan(preset, *planned.graph)});
      list.back().zero = preset.zero;
      continue;
    }
    const std::string name =
        plan.name.starts_with(kEarlier) ? plan.name : std::string(kEarlier) + plan.name;
    list.push_back({Candidate::Source::kCached, name, std::move(plan)});
  }
  return list;
}

void EarlierPlans::keep(const Planned& planned, const Document& document) const {
  results_.keep(cache_key(planned), document);
  of_graphs_.keep(key_of_graph(planned, planned.best()->ranks()), document);
}

Document cached_document(const Planned& planned) {
  Document document;
  document[kPlan] = plan_document(planned);
  document[kName] = planned.best()->candidate.name;
  document[kSource] = std::string(to_text(planned.best()->candidate.source));
  document[kVerdict] = Document::List{};
  for (const std::string& line : verdict_lines(planned)) document[kVerdict].append(line);
  if (planned.result.measured)
    document[kVerdict].append("measured       " + measured_note(planned.result));
  return document;
}

Plan plan_of(const Document& cached) {
  Plan plan = parse_plan(*cached.find(kPlan), "the plan that was found");
  plan.name = cached.find(kName)->as_string();
  return plan;
}

std::vector<std::string> verdict_of(const Document& cached) {
  std::vector<std::string> lines;
  for (const Document& line : cached.find(kVerdict)->as_list()) lines.push_back(line.as_string());
  return lines;
}

}  // namespace tessera
