#include "search/stage_source.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/on_all_cores.h"
#include "base/text.h"
#include "plan/preset.h"
#include "prediction/deployment.h"
#include "presets/presets.h"
#include "search/stage_divisions.h"
#include "stage_search/stage_search.h"

namespace tessera {
namespace {

/// Pipelines are compiled whose estimate is at most so much above the best step.
constexpr double kMargin = 1.04;
/// Neighbours of the best pipeline that are compiled at a time.
constexpr size_t kTrials = 3;
/// Estimates of memory are too high by up to so much: pipelines that would fit then are compiled.
constexpr double kMemoryMargin = 0.08;
/// How often it is searched with less memory, and how often neighbours are made.
constexpr int kSearchesAgain = 3;
constexpr int kNeighbourRounds = 2;
/// Of more than kManyRanks ranks: rows of a batch up to which every divisor is a number of
/// micro-batches, the least number of larger ones, and the pipelines that are compiled.
constexpr int64_t kManyRowsPerBatch = 64;
constexpr int64_t kLeastOfMany = 16;
constexpr size_t kFewAnswers = 2;

std::string name_of(const PipelineChoice& choice, const std::vector<StageWay>& ways) {
  std::vector<std::pair<std::string, int>> runs;  // stages of one mesh after each other
  for (const StageChoice& stage : choice.stages) {
    std::string mesh = to_text(*mesh_from(*ways[stage.way].mesh, 0));
    std::ranges::replace(mesh, ' ', ',');
    if (runs.empty() || runs.back().first != mesh) runs.emplace_back(mesh, 0);
    ++runs.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [mesh, count] : runs)
    parts.push_back(count > 1 ? std::to_string(count) + " x " + mesh : mesh);
  return "stages " + join(parts, " | ") +
         ", micro_batches=" + std::to_string(choice.micro_batches) +
         (choice.micro_batches > 1 ? ", " + std::string(to_text(choice.schedule)) : "") +
         (choice.has_data_outside ? ", dp outside" : "");
}

Plan plan_of(const PlanRequest& request, const Plan& decisions, const PipelineChoice& choice,
             const StageDivisions& divisions) {
  Plan plan = decisions;
  plan.name = name_of(choice, divisions.ways());
  plan.micro_batches = choice.micro_batches;
  if (choice.micro_batches > 1) plan.schedule = choice.schedule;
  std::vector<int> stages;
  std::vector<int> begins;
  for (const StageChoice& stage : choice.stages) {
    const size_t at = plan.meshes.size();
    plan.meshes.push_back({"stage" + std::to_string(at), mesh_of(choice, at, divisions.ways())});
    begins.push_back(divisions.line().begins[stage.first_unit]);
  }
  for (const Op& op : request.graph.ops()) {
    if (op.role != Role::kForward) continue;
    const auto at = static_cast<int>(stages.size());
    stages.push_back(static_cast<int>(std::ranges::upper_bound(begins, at) - begins.begin()) - 1);
  }
  plan = staged_plan(request.graph, stages, std::move(plan));
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.meshes) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(in_order(request.cluster, plan.rank_count()), meshes);
  CompileOptions options;
  options.rewrites = request.rewrites;
  return resolved(request.graph, std::move(plan), options);
}

/// How often 2 divides a number.
int twos(int64_t number) {
  return std::countr_zero(static_cast<uint64_t>(number));
}

/// The divisors of the batch that are tried as numbers of micro-batches, ascending.
std::vector<int64_t> micro_batch_counts(int64_t rows, int ranks) {
  std::vector<int64_t> counts;
  for (int64_t count = 2; count <= std::min(rows, kMaxMicroBatches); ++count)
    if (rows % count == 0) counts.push_back(count);
  if (ranks <= kManyRanks || rows <= kManyRowsPerBatch) return counts;
  // From each power of two to the next one that whose micro-batches dp divides best.
  counts.clear();
  for (int64_t least = kLeastOfMany; least <= rows; least *= 2) {
    int64_t best = 0;
    for (int64_t count = least; count < 2 * least; ++count)
      if (rows % count == 0 && (best == 0 || twos(rows / count) >= twos(rows / best))) best = count;
    if (best > 0) counts.push_back(best);
  }
  return counts;
}

StageSearchOptions options_of(const PlanRequest& request, const PlanConstraints& constraints) {
  StageSearchOptions options;
  const Plan decisions = decisions_of(constraints);
  const bool has_fixed_count = fixes_decision(constraints, "micro_batches");
  for (const int64_t count : micro_batch_counts(batch_rows(request.graph), constraints.ranks))
    if (!has_fixed_count || count == decisions.micro_batches)
      options.micro_batches.push_back(count);
  if (constraints.ranks > kManyRanks) {
    if (const int64_t count = decisions.micro_batches;
        has_fixed_count && count > 1 && batch_rows(request.graph) % count == 0)
      options.micro_batches = {count};
    options.min_stages = 1;
    options.max_answers = kFewAnswers;
    options.effort = StageSearchEffort::little();
  }
  // The divisions are made for the first number; of one there are none by micro-batches.
  if (!options.micro_batches.empty() && !has_fixed_count && constraints.ranks <= kManyRanks &&
      !fixes_decision(constraints, "schedule"))
    options.micro_batches.push_back(1);
  for (const PipelineKind schedule :
       {PipelineKind::kOneForwardOneBackward, PipelineKind::kEagerOneForwardOneBackward,
        PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleH2})
    if (!fixes_decision(constraints, "schedule") || schedule == decisions.schedule)
      options.schedules.push_back(schedule);
  if (const auto fixed = constraints.degrees.find(kPipelineKey); fixed != constraints.degrees.end())
    options.stages = static_cast<int>(fixed->second);
  return options;
}

StageSearchOptions with_boundaries(StageSearchOptions options, const StageDivisions& divisions) {
  options.boundaries = divisions.boundaries();
  return options;
}

/// Empty for a step that is compiled as a whole.
std::vector<ShorterStep> shorter_steps_of(const PlanRequest& request, const Plan& decisions,
                                          PipelineChoice choice, const StageDivisions& divisions) {
  if (!request.graph_of_rows || choice.micro_batches <= kMaxMicroBatches) return {};
  const int64_t rows = batch_rows(request.graph) / choice.micro_batches;
  std::vector<ShorterStep> steps;
  for (const int64_t count : shorter_counts(static_cast<int>(choice.stages.size()))) {
    ShorterStep step{std::make_shared<const Graph>(request.graph_of_rows(rows * count))};
    choice.micro_batches = count;
    step.plan =
        plan_of({*step.graph, request.cluster, step.rewrites}, decisions, choice, divisions);
    steps.push_back(std::move(step));
  }
  return steps;
}

/// Where tensor parallelism crosses machines hardly any ranks behave alike, and each one that does
/// not is simulated. nullopt where the step can be simulated.
std::optional<EstimatedStep> estimate_of(const PlanRequest& request, const PipelineChoice& choice,
                                         const StageDivisions& divisions) {
  const Cluster& cluster = request.cluster;
  const auto devices = static_cast<int64_t>(cluster.devices_of(cluster.machine(0)).size());
  const auto crosses_machines = [&](const StageChoice& stage) {
    const Mesh& mesh = *divisions.ways()[stage.way].mesh;
    const std::optional<int> axis = mesh.find_axis(kTensorAxis);
    return axis && mesh.shape()[*axis] > devices;
  };
  if (std::ranges::none_of(choice.stages, crosses_machines)) return std::nullopt;
  EstimatedStep estimate{Seconds(choice.seconds), {}};
  for (const StageChoice& stage : choice.stages)
    estimate.busy.emplace_back(
        static_cast<double>(choice.micro_batches) * stage.cost.micro_batch() + stage.cost.once);
  return estimate;
}

/// nullopt when the model cannot have it.
std::optional<Candidate> candidate_of(const PlanRequest& request, const Plan& decisions,
                                      const PipelineChoice& choice,
                                      const StageDivisions& divisions) {
  try {
    Candidate candidate{
        Candidate::Source::kPipeline, {}, plan_of(request, decisions, choice, divisions)};
    candidate.shorter = shorter_steps_of(request, decisions, choice, divisions);
    if (!candidate.shorter.empty()) candidate.estimate = estimate_of(request, choice, divisions);
    return candidate;
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

std::optional<Seconds> best_step(const PlanningAnswer& known) {
  if (!known.best) return std::nullopt;
  return known.candidates[*known.best].step();
}

/// Plans of one micro-batch have no schedule: their ops run when they can.
bool are_equal(const PipelineChoice& a, const PipelineChoice& b) {
  return a.micro_batches == b.micro_batches && (a.micro_batches == 1 || a.schedule == b.schedule) &&
         a.has_stages_of(b);
}

/// By rank, the bytes that a compiled pipeline needs beyond its estimate; below 0 where the
/// estimate is too high.
std::vector<double> missed_by(const PipelineChoice& estimate, const EvaluatedCandidate& found) {
  const std::vector<double> estimated = clock_memory(estimate);
  const std::vector<RankMemoryNeed>& needs = found.prediction.memory;
  std::vector<double> missed(needs.size(), 0);
  for (size_t s = 0; s < estimated.size(); ++s) {
    const Mesh& mesh = *found.candidate.plan.meshes[s].mesh;
    for (const Rank rank : mesh.ranks())
      missed[rank] = static_cast<double>(needs[rank].allocated().value()) - estimated[s];
  }
  return missed;
}

/// Does it fit only with the margin that its stages have?
bool needs_margin(const PipelineChoice& choice) {
  const std::vector<double> bytes = clock_memory(choice);
  for (size_t s = 0; s < bytes.size(); ++s)
    if (bytes[s] * (1 + kMemoryMargin) > choice.stages[s].capacity) return true;
  return false;
}

void keep_unequal(std::vector<PipelineChoice>& choices) {
  std::vector<PipelineChoice> kept;
  for (PipelineChoice& choice : choices) {
    const auto is_equal = [&](const PipelineChoice& other) { return are_equal(choice, other); };
    if (std::ranges::none_of(kept, is_equal)) kept.push_back(std::move(choice));
  }
  choices = std::move(kept);
}

}  // namespace

struct StageSource::Search {
  Search(const PlanRequest& request, const PlanConstraints& constraints, StageSearchOptions options)
      : decisions(decisions_of(constraints)),
        deployment(in_order(request.cluster, constraints.ranks)),
        divisions(request, constraints, DeviceRuns(deployment), options.micro_batches.front()),
        stages(divisions.line(), divisions.ways(), deployment,
               with_boundaries(std::move(options), divisions)) {}

  /// Where memory binds, those that fit if the estimates are too high come first.
  std::vector<PipelineChoice> first() {
    if (std::ssize(deployment.device_of_rank) > kManyRanks) return stages.best();
    std::vector<double> withheld;
    for (Rank rank = 0; rank < std::ssize(deployment.device_of_rank); ++rank) {
      const DeviceType& type = deployment.type(rank);
      withheld.push_back(-kMemoryMargin *
                         static_cast<double>((type.memory - type.reserve).value()));
    }
    stages.withhold(std::move(withheld));
    std::vector<PipelineChoice> list = stages.best();
    stages.withhold({});
    if (std::ranges::any_of(list, needs_margin))
      std::ranges::move(stages.best(), std::back_inserter(list));
    return list;
  }

  const Plan decisions;
  const Deployment deployment;
  const StageDivisions divisions;
  StageSearch stages;
};

StageSource::StageSource() = default;
StageSource::~StageSource() = default;

std::vector<Candidate> StageSource::operator()(const PlanRequest& request,
                                               const PlanConstraints& constraints,
                                               const PlanningAnswer& known) {
  const bool is_first = !std::exchange(was_asked_, true);
  if (is_first) {
    // Equal stages are those of presets.
    if (constraints.mesh || constraints.ranks < 2 || fixes_decision(constraints, kStagesKey))
      return {};
    const StageSearchOptions options = options_of(request, constraints);
    const auto boundaries = static_cast<int>(constraints.boundaries.size());
    const bool has_stages = boundaries == 0 || options.stages == boundaries + 1;
    if (options.micro_batches.empty() || options.schedules.empty() || !has_stages ||
        options.stages.value_or(options.min_stages) < options.min_stages)
      return {};
    search_ = std::make_unique<Search>(request, constraints, options);
  }
  if (!search_ || (!is_first && constraints.ranks > kManyRanks)) return {};
  std::vector<PipelineChoice> choices = is_first ? search_->first() : with_less_memory(known);
  if (!is_first && choices.empty() && asked_for_neighbours_++ < kNeighbourRounds) {
    choices = neighbours(known);
    if (!fixes_decision(constraints, "schedule"))
      std::ranges::move(with_whole_backward(known), std::back_inserter(choices));
  }
  const std::optional<Seconds> limit = best_step(known);
  std::erase_if(choices, [&](const PipelineChoice& choice) {
    return limit && choice.seconds > kMargin * limit->value();
  });
  keep_unequal(choices);
  return candidates(request, std::move(choices));
}

std::vector<PipelineChoice> StageSource::with_less_memory(const PlanningAnswer& known) {
  const EvaluatedCandidate* fastest = nullptr;
  for (const EvaluatedCandidate& candidate : known.candidates)
    if (!candidate.fits() && tried_.contains(candidate.candidate.name) &&
        !searched_from_.contains(candidate.candidate.name) &&
        (!fastest || candidate.step() < fastest->step()))
      fastest = &candidate;
  const std::optional<Seconds> best = best_step(known);
  if (!fastest || (best && *best <= fastest->step()) || searched_again_++ >= kSearchesAgain)
    return {};
  const std::string& name = fastest->candidate.name;
  searched_from_.insert(name);
  search_->stages.withhold(missed_by(tried_.at(name), *fastest));
  std::vector<PipelineChoice> choices = search_->stages.best();
  std::erase_if(choices, [&](const PipelineChoice& choice) { return was_tried(choice); });
  return choices;
}

std::vector<PipelineChoice> StageSource::with_whole_backward(const PlanningAnswer& known) const {
  std::vector<PipelineChoice> list;
  for (const UnusableCandidate& unusable : known.unusable) {
    const auto found = tried_.find(unusable.name);
    if (found == tried_.end()) continue;
    PipelineChoice choice = found->second;
    choice.schedule = PipelineKind::kOneForwardOneBackward;
    const std::optional<double> seconds = clock_seconds(choice);
    if (!seconds || was_tried(choice)) continue;
    choice.seconds = *seconds;
    list.push_back(std::move(choice));
  }
  return list;
}

bool StageSource::was_tried(const PipelineChoice& choice) const {
  return std::ranges::any_of(tried_,
                             [&](const auto& entry) { return are_equal(entry.second, choice); });
}

std::vector<PipelineChoice> StageSource::neighbours(const PlanningAnswer& known) const {
  if (!known.best) return {};
  const EvaluatedCandidate& best = known.candidates[*known.best];
  const auto found = tried_.find(best.candidate.name);
  if (found == tried_.end()) return {};
  // The estimate of a neighbour is as wrong as that of the best one.
  const double error = best.step().value() / found->second.seconds;
  std::vector<PipelineChoice> list = search_->stages.neighbours(found->second);
  std::erase_if(list, [&](const PipelineChoice& choice) { return was_tried(choice); });
  for (PipelineChoice& choice : list) choice.seconds *= error;
  if (list.size() > kTrials) list.resize(kTrials);
  return list;
}

std::vector<Candidate> StageSource::candidates(const PlanRequest& request,
                                               std::vector<PipelineChoice> choices) {
  std::vector<std::optional<Candidate>> made(choices.size());
  on_all_cores(std::ssize(choices), [&](int64_t i) {
    made[i] = candidate_of(request, search_->decisions, choices[i], search_->divisions);
  });
  std::vector<Candidate> list;
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) continue;
    const std::string name = made[i]->plan.name;
    for (int copy = 2; tried_.contains(made[i]->plan.name); ++copy)
      made[i]->plan.name = name + " (" + std::to_string(copy) + ")";
    made[i]->name = made[i]->plan.name;
    tried_.emplace(made[i]->name, std::move(choices[i]));
    list.push_back(*std::move(made[i]));
  }
  return list;
}

std::vector<CandidateSource> all_searches() {
  constexpr int kRounds = 1 + kSearchesAgain + kNeighbourRounds;
  std::vector<CandidateSource> sources = placement_searches();
  const auto source = std::make_shared<StageSource>();
  const CandidateSource round =
      [source](const PlanRequest& request, const PlanConstraints& constraints,
               const PlanningAnswer& known) { return (*source)(request, constraints, known); };
  sources.insert(sources.end(), kRounds, round);
  return sources;
}

}  // namespace tessera
