#include "search/sources/stage_source.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "base/on_all_cores.h"
#include "plan/preset.h"
#include "prediction/deployment.h"
#include "presets/presets.h"
#include "search/sources/stage_divisions.h"
#include "search/sources/stage_hardware.h"
#include "search/sources/stage_options.h"
#include "search/sources/stage_plans.h"
#include "stage_search/choice_clock.h"
#include "stage_search/stage_search.h"

namespace tessera {
namespace {

/// Pipelines are compiled whose estimate is at most so much above the best step.
constexpr double kMargin = 1.04;
/// Neighbours of the best pipeline that are compiled at a time.
constexpr size_t kTrials = 3;
/// Where candidates take long: two, for as long as they are faster than the one before.
constexpr size_t kFewTrials = 2;
/// Estimates of memory are too high by up to so much: pipelines that would fit then are compiled.
constexpr double kMemoryMargin = 0.08;
/// How often it is searched with less memory, and how often neighbours are made.
constexpr int kSearchesAgain = 3;
constexpr int kNeighbourRounds = 2;
/// How often pipelines with two stages on each device are made, and how many are compiled then.
constexpr int kSplitRounds = 2;
constexpr size_t kSplitTrials = 3;

StageSearchOptions with_boundaries(StageSearchOptions options, const StageDivisions& divisions) {
  options.boundaries = divisions.boundaries();
  return options;
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

bool are_equal(const StagedChoice& a, const StagedChoice& b) {
  return a.level == b.level && are_equal(a.choice, b.choice);
}

void keep_unequal(std::vector<StagedChoice>& choices) {
  std::vector<StagedChoice> kept;
  for (StagedChoice& choice : choices) {
    const auto is_equal = [&](const StagedChoice& other) { return are_equal(choice, other); };
    if (std::ranges::none_of(kept, is_equal)) kept.push_back(std::move(choice));
  }
  choices = std::move(kept);
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

double least_seconds(const std::vector<StagedChoice>& choices) {
  double least = std::numeric_limits<double>::infinity();
  for (const StagedChoice& each : choices) least = std::min(least, each.choice.seconds);
  return least;
}

}  // namespace

/// Searches for pipelines, one for each way in which the backward computes results again.
struct StageSource::Search {
  Search(const PlanRequest& wanted, const PlanConstraints& binding, StageSearchOptions tried,
         Deployment placed)
      : request(wanted),
        constraints(binding),
        decisions(decisions_of(binding)),
        deployment(std::move(placed)),
        line(stage_line(wanted, binding)),
        options(with_ranks(std::move(tried))) {
    levels.push_back(std::make_unique<Level>(*this, StageSavings{decisions.recompute}));
  }

  /// Where memory binds, those that fit if the estimates are too high come first; and those that
  /// compute results again follow.
  std::vector<StagedChoice> first() {
    std::vector<StagedChoice> list = of_first_level();
    if (list.empty() ||
        (!levels.front()->stages.fits_in_one_stage() &&
         least_seconds(without_limit([&] { return best_of(0); })) < least_seconds(list)))
      std::ranges::move(of_further_levels(), std::back_inserter(list));
    if (takes_few()) keep_unlike(list);
    return list;
  }

  /// The fastest of those of equal ways: only their cuts and schedules differ.
  void keep_unlike(std::vector<StagedChoice>& list) const {
    keep_fastest(list);
    std::vector<StagedChoice> kept;
    for (StagedChoice& each : list) {
      const auto is_like = [&](const StagedChoice& known) {
        return known.level == each.level && known.choice.has_ways_of(each.choice);
      };
      if (std::ranges::none_of(kept, is_like)) kept.push_back(std::move(each));
    }
    list = std::move(kept);
  }

  /// Do candidates take so long to simulate that only unlike ones are worth it? The cuts of the
  /// best one are moved later.
  bool takes_few() const {
    return are_many() || is_long(request.graph, std::ranges::max(options.micro_batches));
  }

  /// Those of the levels that were not searched yet: where memory binds.
  ///   withheld  as StageSearch::withhold
  std::vector<StagedChoice> of_further_levels(const std::vector<double>& withheld = {}) {
    std::vector<StagedChoice> list;
    if (levels.size() > 1) return list;
    for (const StageSavings& savings : further_savings()) {
      levels.push_back(std::make_unique<Level>(*this, savings));
      levels.back()->stages.withhold(withheld);
      std::ranges::move(best_of(levels.size() - 1), std::back_inserter(list));
    }
    keep_fastest(list);
    return list;
  }

  /// The fastest ones with two stages on each device, of all levels; of further ones where memory
  /// binds those of the first level.
  std::vector<StagedChoice> splits(double limit) {
    std::vector<StagedChoice> list;
    for (size_t level = 0; level < levels.size(); ++level)
      std::ranges::move(splits_of(level, limit), std::back_inserter(list));
    if (levels.size() > 1 || levels.front()->stages.fits_in_one_stage() ||
        least_seconds(without_limit([&] { return splits_of(0, limit); })) >= least_seconds(list))
      return list;
    of_further_levels(margin());
    for (size_t level = 1; level < levels.size(); ++level)
      std::ranges::move(splits_of(level, limit), std::back_inserter(list));
    return list;
  }

  std::vector<StagedChoice> splits_of(size_t level, double limit) {
    return of_level(level, levels[level]->stages.best_with_two_stages(limit));
  }

  std::vector<StagedChoice> best_of(size_t level) {
    return of_level(level, levels[level]->stages.best());
  }

  static std::vector<StagedChoice> of_level(size_t level, std::vector<PipelineChoice> choices) {
    std::vector<StagedChoice> list;
    for (PipelineChoice& choice : choices) list.push_back({std::move(choice), level});
    return list;
  }

  /// For StageSearch::withhold: those fit whose estimates are too high.
  std::vector<double> margin() const {
    std::vector<double> withheld;
    for (Rank rank = 0; rank < std::ssize(deployment.device_of_rank); ++rank) {
      const DeviceType& type = deployment.type(rank);
      withheld.push_back(-kMemoryMargin *
                         static_cast<double>((type.memory - type.reserve).value()));
    }
    return withheld;
  }

  /// Where devices are wanted, stages say which ones they have.
  void add_hardware(StagedChoice& staged) const {
    const std::vector<StageWay>& ways = levels[staged.level]->divisions.ways();
    for (size_t i = 0; i < staged.choice.stages.size(); ++i)
      staged.choice.stages[i].hardware =
          common_type(deployment, mesh_of(staged.choice, i, ways)->ranks());
  }

  struct Level {
    Level(Search& search, const StageSavings& savings)
        : divisions(search.request, search.constraints, search.line, DeviceRuns(search.deployment),
                    search.options.micro_batches.front(), savings, search.graphs),
          stages(divisions.line(), divisions.ways(), search.deployment,
                 with_boundaries(search.options, divisions)) {}

    const StageDivisions divisions;
    StageSearch stages;
  };

  const PlanRequest& request;
  const PlanConstraints constraints;
  const Plan decisions;
  const Deployment deployment;
  const std::shared_ptr<const ModelLine> line;
  const StageSearchOptions options;
  EqualGraphs graphs;
  std::vector<std::unique_ptr<Level>>
      levels;  // the first one is what is fixed, or keeps everything

 private:
  StageSearchOptions with_ranks(StageSearchOptions tried) const {
    tried.ranks = unit_ranks(request.graph, *line, deployment, constraints);
    return tried;
  }

  bool are_many() const { return std::ssize(deployment.device_of_rank) > kManyRanks; }

  /// Of each level at least one: estimates of memory are not equally good.
  void keep_fastest(std::vector<StagedChoice>& list) const {
    std::ranges::stable_sort(list, {},
                             [](const StagedChoice& each) { return each.choice.seconds; });
    std::vector<StagedChoice> kept;
    std::set<size_t> known;  // levels
    for (StagedChoice& each : list)
      if (const bool is_first = known.insert(each.level).second;
          is_first || kept.size() < options.max_answers)
        kept.push_back(std::move(each));
    list = std::move(kept);
  }

  /// Those that are tried where memory binds. States are divided at once, since that takes hardly
  /// any time: the gradients are summed and the parameters gathered in either case. Of many ranks
  /// they stay whole: the simulation of PanGu's divided states took 20 GiB.
  std::vector<StageSavings> further_savings() const {
    using Kind = Recompute::Kind;
    const bool is_fixed = fixes_decision(constraints, "recompute");
    std::vector<StageSavings> list;
    const int zero = are_many() ? 0 : 1;
    if (zero > 0) list.push_back({decisions.recompute, zero});
    if (!is_fixed)
      for (const Kind kind : {Kind::kSelective, Kind::kFull}) list.push_back({{kind}, zero});
    return list;
  }

  std::vector<StagedChoice> of_first_level() {
    if (are_many()) return best_of(0);
    StageSearch& stages = levels.front()->stages;
    stages.withhold(margin());
    std::vector<PipelineChoice> list = stages.best();
    stages.withhold({});
    if (std::ranges::any_of(list, needs_margin))
      std::ranges::move(stages.best(), std::back_inserter(list));
    return of_level(0, std::move(list));
  }

  /// What `search` finds in the first level, on devices of any memory.
  std::vector<StagedChoice> without_limit(
      const std::function<std::vector<StagedChoice>()>& search) {
    StageSearch& stages = levels.front()->stages;
    stages.withhold(std::vector<double>(deployment.device_of_rank.size(),
                                        -std::numeric_limits<double>::infinity()));
    std::vector<StagedChoice> list = search();
    stages.withhold({});
    return list;
  }
};

StageSource::StageSource() = default;
StageSource::~StageSource() = default;

std::vector<Candidate> StageSource::operator()(const PlanRequest& request,
                                               const PlanConstraints& constraints,
                                               const PlanningAnswer& known) {
  const bool is_first = !std::exchange(was_asked_, true);
  std::vector<StagedChoice> choices;
  if (is_first) {
    // Equal stages are those of presets.
    if (constraints.mesh || constraints.ranks < 2 || fixes_decision(constraints, kStagesKey))
      return {};
    const StageSearchOptions options = stage_options(request, constraints);
    const auto boundaries = static_cast<int>(constraints.boundaries.size());
    const bool has_stages = boundaries == 0 || options.stages == boundaries + 1;
    if (options.micro_batches.empty() || options.schedules.empty() || !has_stages ||
        options.stages.value_or(options.min_stages) < options.min_stages)
      return {};
    for (Deployment& deployment : stage_deployments(request.cluster, constraints)) {
      auto search = std::make_unique<Search>(request, constraints, options, std::move(deployment));
      std::vector<StagedChoice> found = search->first();
      if (search_ && least_seconds(found) >= least_seconds(choices)) continue;
      search_ = std::move(search);
      choices = std::move(found);
    }
  }
  if (!search_) return {};
  if (constraints.ranks > kManyRanks) {
    if (is_first) spare_ = std::move(choices);
    return next_spare(request, known);
  }
  if (!is_first) choices = with_less_memory(known);
  if (!is_first && choices.empty() && asked_for_neighbours_++ < kNeighbourRounds) {
    choices = neighbours(known);
    if (!fixes_decision(constraints, "schedule"))
      std::ranges::move(with_whole_backward(known), std::back_inserter(choices));
  }
  if (!is_first && choices.empty()) choices = with_two_stages(known);
  const std::optional<Seconds> limit = best_step(known);
  std::erase_if(choices, [&](const StagedChoice& each) {
    return limit && each.choice.seconds > kMargin * limit->value();
  });
  keep_unequal(choices);
  return candidates(request, std::move(choices));
}

std::vector<Candidate> StageSource::next_spare(const PlanRequest& request,
                                               const PlanningAnswer& known) {
  const auto fits = [&](const EvaluatedCandidate& each) {
    return each.fits() && tried_.contains(each.candidate.name);
  };
  if (spare_.empty() || std::ranges::any_of(known.candidates, fits)) return {};
  std::vector<StagedChoice> choices{std::move(spare_.front())};
  spare_.erase(spare_.begin());
  const std::optional<Seconds> limit = best_step(known);
  if (limit && choices.front().choice.seconds > kMargin * limit->value()) return {};
  return candidates(request, std::move(choices));
}

std::vector<StagedChoice> StageSource::with_less_memory(const PlanningAnswer& known) {
  // What does not fit is not simulated: it is as fast as its estimate.
  const EvaluatedCandidate* fastest = nullptr;
  double seconds = std::numeric_limits<double>::infinity();
  for (const EvaluatedCandidate& candidate : known.candidates) {
    const auto found = tried_.find(candidate.candidate.name);
    if (candidate.fits() || found == tried_.end() || searched_from_.contains(found->first) ||
        found->second.choice.seconds >= seconds)
      continue;
    fastest = &candidate;
    seconds = found->second.choice.seconds;
  }
  const std::optional<Seconds> best = best_step(known);
  if (!fastest || (best && best->value() <= seconds) || searched_again_++ >= kSearchesAgain)
    return {};
  const std::string& name = fastest->candidate.name;
  searched_from_.insert(name);
  const StagedChoice& tried = tried_.at(name);
  const std::vector<double> missed = missed_by(tried.choice, *fastest);
  search_->levels[tried.level]->stages.withhold(missed);
  std::vector<StagedChoice> choices = search_->best_of(tried.level);
  std::ranges::move(search_->of_further_levels(missed), std::back_inserter(choices));
  std::erase_if(choices, [&](const StagedChoice& choice) { return was_tried(choice); });
  if (search_->takes_few()) search_->keep_unlike(choices);
  return choices;
}

std::vector<StagedChoice> StageSource::with_whole_backward(const PlanningAnswer& known) const {
  std::vector<StagedChoice> list;
  for (const UnusableCandidate& unusable : known.unusable) {
    const auto found = tried_.find(unusable.name);
    if (found == tried_.end() || found->second.choice.has_two_stages()) continue;
    StagedChoice choice = found->second;
    choice.choice.schedule = PipelineKind::kOneForwardOneBackward;
    const std::optional<double> seconds = clock_seconds(choice.choice);
    if (!seconds || was_tried(choice)) continue;
    choice.choice.seconds = *seconds;
    list.push_back(std::move(choice));
  }
  return list;
}

bool StageSource::was_tried(const StagedChoice& choice) const {
  return std::ranges::any_of(tried_,
                             [&](const auto& entry) { return are_equal(entry.second, choice); });
}

std::vector<StagedChoice> StageSource::neighbours(const PlanningAnswer& known) {
  if (!known.best) return {};
  const EvaluatedCandidate& best = known.candidates[*known.best];
  const auto found = tried_.find(best.candidate.name);
  if (found == tried_.end()) return {};
  const bool is_known = std::exchange(neighbours_of_, best.candidate.name) == best.candidate.name;
  if (is_known && search_->takes_few()) return {};
  // The estimate of a neighbour is as wrong as that of the best one.
  const auto& [choice, level] = found->second;
  const double error = best.step().value() / choice.seconds;
  std::vector<StagedChoice> list =
      Search::of_level(level, search_->levels[level]->stages.neighbours(choice));
  std::erase_if(list, [&](const StagedChoice& each) { return was_tried(each); });
  for (StagedChoice& each : list) each.choice.seconds *= error;
  const size_t trials = search_->takes_few() ? kFewTrials : kTrials;
  if (list.size() > trials) list.resize(trials);
  return list;
}

std::vector<StagedChoice> StageSource::with_two_stages(const PlanningAnswer& known) {
  if (fixes_decision(search_->constraints, "schedule") || splits_++ >= kSplitRounds) return {};
  const double limit =
      (search_->takes_few() ? 1 : kMargin) *
      best_step(known).value_or(Seconds(std::numeric_limits<double>::infinity())).value();
  // At first estimates of memory may be too high, and then as wrong as what does not fit shows.
  const std::vector<std::vector<double>> missed = missed_of_splits(known, limit);
  if (splits_ > 1 && std::ranges::all_of(missed, &std::vector<double>::empty)) return {};
  for (size_t level = 0; level < search_->levels.size(); ++level)
    search_->levels[level]->stages.withhold(splits_ == 1 ? search_->margin() : missed[level]);
  std::vector<StagedChoice> list;
  double error = 1;  // of the fastest pipeline of several micro-batches; those of others are alike
  for (const EvaluatedCandidate& each : known.candidates) {
    const auto found = tried_.find(each.candidate.name);
    if (!each.fits() || found == tried_.end() || found->second.choice.micro_batches == 1) continue;
    const auto& [choice, level] = found->second;
    error = each.step().value() / choice.seconds;
    list = Search::of_level(level, search_->levels[level]->stages.with_two_stages(choice));
    break;
  }
  std::ranges::move(search_->splits(limit / error), std::back_inserter(list));
  for (StagedChoice& split : list) split.choice.seconds *= error;
  std::erase_if(list, [&](const StagedChoice& split) {
    return split.choice.seconds >= limit || was_tried(split);
  });
  std::ranges::stable_sort(list, {}, [](const StagedChoice& each) { return each.choice.seconds; });
  keep_unequal(list);
  // The estimates of unlike schedules are not equally good: the fastest of each comes first.
  std::set<PipelineKind> schedules;
  std::ranges::stable_partition(list, [&](const StagedChoice& split) {
    return schedules.insert(split.choice.schedule).second;
  });
  list.resize(std::min(list.size(), std::max(kSplitTrials, schedules.size())));
  return list;
}

std::vector<std::vector<double>> StageSource::missed_of_splits(const PlanningAnswer& known,
                                                               double limit) const {
  std::vector<std::vector<double>> missed(search_->levels.size());
  std::vector<double> seconds(missed.size(), limit);
  for (const EvaluatedCandidate& each : known.candidates) {
    const auto found = tried_.find(each.candidate.name);
    if (each.fits() || found == tried_.end() || !found->second.choice.has_two_stages()) continue;
    const auto& [choice, level] = found->second;
    if (choice.seconds >= seconds[level]) continue;
    seconds[level] = choice.seconds;
    missed[level] = missed_by(choice, each);
  }
  return missed;
}

std::vector<Candidate> StageSource::candidates(const PlanRequest& request,
                                               std::vector<StagedChoice> choices) {
  if (!search_->constraints.hardware.empty())
    for (StagedChoice& each : choices) search_->add_hardware(each);
  std::vector<std::optional<Candidate>> made(choices.size());
  on_all_cores(std::ssize(choices), [&](int64_t i) {
    made[i] = candidate_of(request, search_->decisions, choices[i].choice,
                           search_->levels[choices[i].level]->divisions);
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
  constexpr int kRounds = 1 + kSearchesAgain + kNeighbourRounds + kSplitRounds;
  std::vector<CandidateSource> sources = placement_searches();
  const auto source = std::make_shared<StageSource>();
  const CandidateSource round =
      [source](const PlanRequest& request, const PlanConstraints& constraints,
               const PlanningAnswer& known) { return (*source)(request, constraints, known); };
  sources.insert(sources.end(), kRounds, round);
  return sources;
}

}  // namespace tessera
