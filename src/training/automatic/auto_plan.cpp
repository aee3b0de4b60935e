#include "training/automatic/auto_plan.h"

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cluster/detect.h"
#include "cluster/cluster/sources.h"
#include "ir/models/graphs.h"
#include "training/engine/programs/program_plans.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_without_fit(const Network& network, const PlanSearchResult& result,
                                     int ranks) {
  std::string why = "no plan is possible for it";
  if (!result.candidates.empty()) {
    const EvaluatedCandidate& nearest = result.candidates.front();
    why = "the nearest is " + nearest.candidate.name + ", where rank " +
          std::to_string(nearest.fullest.rank) + " lacks " + to_text(nearest.fullest.missing());
  }
  throw UserError("no plan of " + counted(ranks, "rank") + " for " + network.name + " fits", why,
                  "use more ranks, a smaller batch, or devices of more memory", ExitCode::kNoPlan);
}

}  // namespace

Plan runnable_plan(const Candidate& candidate, const Network& network,
                   const TrainingSettings& settings, const PlanConstraints& constraints,
                   const std::string& cluster) {
  Plan plan = candidate.plan;
  const bool is_of_training_step = candidate.source == Candidate::Source::kSearch ||
                                   candidate.source == Candidate::Source::kPipeline;
  if (is_of_training_step) plan = with_other_programs(network, settings, plan);
  plan.cost.cluster = cluster;
  // Marks of the user are reported as those of any plan.
  plan.is_found = constraints.marks.empty();
  return plan;
}

Plan find_plan_for(const Network& network, const TrainingSettings& settings, int ranks,
                   const AutoPlanOptions& options) {
  const auto graph_of = [&](int64_t rows) {
    return training_graph(network, settings.optimizer, rows, settings.train.seed,
                          settings.train.precision);
  };
  const Graph graph = graph_of(settings.train.batch);
  const auto cluster =
      options.cluster ? options.cluster : std::make_shared<const Cluster>(detect_machine());
  PlanRequest request{graph, *cluster};
  request.graph_of_rows = graph_of;
  PlanSearchOptions search{.constraints = options.constraints};
  search.constraints.ranks = ranks;
  const PlanSearchResult result = find_plan(request, search);
  if (!result.best) refuse_without_fit(network, result, ranks);
  return runnable_plan(result.candidates[*result.best].candidate, network, settings,
                       search.constraints, fingerprint(cluster->description()));
}

PlanMaker auto_plan(int ranks, AutoPlanOptions options) {
  return PlanMaker([ranks, options = std::move(options)](const Network& network,
                                                         const TrainingSettings& settings) {
    return find_plan_for(network, settings, ranks, options);
  });
}

}  // namespace tessera
