#include "tools/cli/internal/print/plan/plan_report.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/threads/on_all_cores.h"
#include "ir/models/family.h"
#include "simulator/report/report.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/plan_search_text.h"
#include "tools/cli/internal/print/prediction_text.h"
#include "tools/cli/internal/run/predicted_run.h"

namespace tessera {
namespace {

/// Columns of the page.
constexpr size_t kReportedPlans = 3;

/// A candidate with all that the page says of it.
struct Reported {
  std::string name;
  Seconds ranked{0};  // its step in the ranking
  Plan plan;
  Compiled compiled;
  PredictedRun run;
};

Reported predicted(const Planned& planned, const Workload& work,
                   const EvaluatedCandidate& candidate) {
  Plan plan = candidate.candidate.plan;
  plan.mapping.reset();  // as it was compared: rank i on device i
  Compiled compiled = compile_on(planned.request(), plan);
  PredictedRun run = predict_run(work, plan, compiled, {planned.cluster, planned.cluster_name});
  return {candidate.candidate.name, candidate.step(), std::move(plan), std::move(compiled),
          std::move(run)};
}

/// Where the ranking has another step than the page: it predicts long steps from shorter ones.
std::string ranked_text(const Reported& reported) {
  const std::string ranked = step_text(reported.ranked);
  const std::string whole = step_text(reported.run.prediction.step);
  if (ranked == whole) return "";
  return "; the whole step is simulated here, " + whole +
         ", where the ranking has a prediction from shorter steps, " + ranked;
}

std::string summary_of(const Reported& reported) {
  return (reported.plan.meshes.empty() ? "" : "mesh ") + mesh_text(reported.plan) + ", " +
         counted(reported.plan.rank_count(), "rank") + ", on " + reported.run.cluster_name +
         ranked_text(reported);
}

ReportedChoice choice_of(const Planned& planned) {
  ReportedChoice choice{.verdict = verdict_line(planned), .fits = planned.best() != nullptr};
  choice.verdict.pop_back();  // the end of the line
  choice.notes = plan_search_notes(planned);
  choice.tables = ranking_tables(planned);
  return choice;
}

}  // namespace

std::vector<size_t> reported_candidates(const Planned& planned) {
  const auto& candidates = planned.result.candidates;
  const size_t first = planned.result.best.value_or(0);
  std::vector<size_t> chosen{first};
  std::vector<std::pair<Candidate::Source, std::string>> kinds{
      {candidates.at(first).candidate.source, mesh_text(candidates[first].candidate.plan)}};
  const auto add = [&](size_t i, bool may_be_identical) {
    const Candidate& candidate = candidates[i].candidate;
    const std::pair kind(candidate.source, mesh_text(candidate.plan));
    if (chosen.size() == kReportedPlans || std::ranges::count(chosen, i)) return;
    if (!may_be_identical && std::ranges::count(kinds, kind)) return;
    chosen.push_back(i);
    kinds.push_back(kind);
  };
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].candidate.source == Candidate::Source::kCompared) add(i, true);
  for (size_t i = 0; i < candidates.size(); ++i) add(i, false);
  return chosen;
}

std::string plan_report_html(const Planned& planned, const std::string& title) {
  ensure(!planned.result.candidates.empty(), "a candidate was simulated");
  const Network network = network_of(planned.config.model);
  const TrainingSettings settings = training_settings(planned.config);
  // Memory as in the ranking: of the training program alone.
  const Workload work{network, settings, *planned.graph, false, true};
  const std::vector<size_t> chosen = reported_candidates(planned);
  std::vector<std::unique_ptr<Reported>> reports(chosen.size());
  on_all_cores(std::ssize(chosen), [&](int64_t i) {
    reports[i] =
        std::make_unique<Reported>(predicted(planned, work, planned.result.candidates[chosen[i]]));
  });
  std::vector<ReportedPlan> list;
  for (const auto& each : reports)
    list.push_back(reported(each->name, summary_of(*each), each->run, each->compiled));
  return report_html(title, list, choice_of(planned));
}

}  // namespace tessera
