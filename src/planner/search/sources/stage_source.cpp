#include "planner/search/sources/stage_source.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/threads/on_all_cores.h"
#include "compiler/plan/preset.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/pipeline/stage_search.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/internal/sources/stage_options.h"
#include "planner/search/internal/sources/stage_plans.h"
#include "planner/search/sources/stage_hardware.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

std::optional<Seconds> best_step(const PlanSearchResult& known) {
  if (!known.best) return std::nullopt;
  return known.candidates[*known.best].step();
}

/// Plans of one micro-batch have no schedule: their ops run when they can.
bool are_equal(const PipelineChoice& a, const PipelineChoice& b) {
  return a.micro_batches == b.micro_batches && (a.micro_batches == 1 || a.schedule == b.schedule) &&
         a.has_stages_of(b);
}

bool are_equal(const PipelineCandidate& a, const PipelineCandidate& b) {
  return a.strategy == b.strategy && are_equal(a.choice, b.choice);
}

void keep_unequal(std::vector<PipelineCandidate>& choices) {
  std::vector<PipelineCandidate> kept;
  for (PipelineCandidate& choice : choices) {
    const auto is_equal = [&](const PipelineCandidate& other) { return are_equal(choice, other); };
    if (std::ranges::none_of(kept, is_equal)) kept.push_back(std::move(choice));
  }
  choices = std::move(kept);
}

/// By rank, the bytes that a compiled pipeline needs beyond its estimate; below 0 where the
/// estimate is too high.
std::vector<double> missed_by(const PipelineChoice& estimate, const EvaluatedCandidate& found) {
  const std::vector<double> estimated = simulated_memory(estimate);
  const std::vector<RankMemoryNeed>& needs = found.prediction.memory;
  std::vector<double> missed(needs.size(), 0);
  for (size_t s = 0; s < estimated.size(); ++s) {
    const Mesh& mesh = *found.candidate.plan.meshes[s].mesh;
    for (const Rank rank : mesh.ranks())
      missed[rank] = static_cast<double>(needs[rank].allocated().value()) - estimated[s];
  }
  return missed;
}

}  // namespace

StageSource::StageSource() = default;
StageSource::~StageSource() = default;

std::vector<Candidate> StageSource::operator()(const PlanRequest& request,
                                               const PlanConstraints& constraints,
                                               const PlanSearchResult& known) {
  const bool is_first = !std::exchange(was_asked_, true);
  std::vector<PipelineCandidate> choices;
  if (is_first) {
    // Equal stages are those of presets.
    if (constraints.mesh || constraints.ranks < 2 || constraints.has_presets_alone ||
        fixes_decision(constraints, kStagesKey))
      return {};
    const StageSearchOptions options = stage_options(request, constraints);
    const auto boundaries = static_cast<int>(constraints.boundaries.size());
    const bool has_stages = boundaries == 0 || options.stages == boundaries + 1;
    if (options.micro_batches.empty() || options.schedules.empty() || !has_stages ||
        options.stages.value_or(options.min_stages) < options.min_stages)
      return {};
    for (Deployment& deployment : stage_deployments(request.cluster, constraints)) {
      auto search =
          std::make_unique<MemoryStrategies>(request, constraints, options, std::move(deployment));
      std::vector<PipelineCandidate> found = search->first();
      if (search_ && min_seconds(found) >= min_seconds(choices)) continue;
      search_ = std::move(search);
      choices = std::move(found);
    }
  }
  if (!search_) return {};
  if (constraints.ranks > kSearchPolicy.many_ranks) {
    if (is_first) spare_ = std::move(choices);
    return next_spare(request, known);
  }
  if (!is_first) choices = with_less_memory(known);
  if (!is_first && choices.empty() && neighbour_rounds_ < kSearchPolicy.neighbour_rounds) {
    ++neighbour_rounds_;
    choices = neighbours(known);
    if (!fixes_decision(constraints, "schedule"))
      std::ranges::move(with_whole_backward(known), std::back_inserter(choices));
  }
  if (!is_first && choices.empty()) choices = with_two_stages(known);
  if (!is_first && choices.empty() && last_rounds_++ < kSearchPolicy.neighbour_rounds)
    if (const PipelineCandidate* best = best_choice(known); best && best->choice.has_two_stages())
      choices = neighbours(known);
  const std::optional<Seconds> limit = best_step(known);
  std::erase_if(choices, [&](const PipelineCandidate& each) {
    return limit && each.choice.seconds > search_->margin_of(each.strategy) * limit->value();
  });
  keep_unequal(choices);
  return candidates(request, std::move(choices));
}

std::vector<Candidate> StageSource::next_spare(const PlanRequest& request,
                                               const PlanSearchResult& known) {
  const auto fits = [&](const EvaluatedCandidate& each) {
    return each.fits() && tried_.contains(each.candidate.name);
  };
  if (spare_.empty() || std::ranges::any_of(known.candidates, fits)) return {};
  std::vector<PipelineCandidate> choices{std::move(spare_.front())};
  spare_.erase(spare_.begin());
  const std::optional<Seconds> limit = best_step(known);
  if (limit && choices.front().choice.seconds > search_->margin_of(0) * limit->value()) return {};
  return candidates(request, std::move(choices));
}

std::vector<PipelineCandidate> StageSource::with_less_memory(const PlanSearchResult& known) {
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
  if (!fastest || (best && best->value() <= seconds) ||
      searched_again_++ >= kSearchPolicy.searches_again)
    return {};
  const std::string& name = fastest->candidate.name;
  searched_from_.insert(name);
  const PipelineCandidate& tried = tried_.at(name);
  const std::vector<double> missed = missed_by(tried.choice, *fastest);
  search_->stages(tried.strategy).reserve_memory(missed);
  std::vector<PipelineCandidate> choices = search_->best_of(tried.strategy);
  std::ranges::move(search_->of_recomputing_strategies(missed), std::back_inserter(choices));
  std::erase_if(choices, [&](const PipelineCandidate& choice) { return was_tried(choice); });
  if (search_->simulates_few()) search_->keep_distinct(choices);
  return choices;
}

std::vector<PipelineCandidate> StageSource::with_whole_backward(
    const PlanSearchResult& known) const {
  std::vector<PipelineCandidate> list;
  for (const UnusableCandidate& unusable : known.unusable) {
    const auto found = tried_.find(unusable.name);
    if (found == tried_.end() || found->second.choice.has_two_stages()) continue;
    PipelineCandidate choice = found->second;
    choice.choice.schedule = PipelineKind::kOneForwardOneBackward;
    const std::optional<double> seconds = simulated_seconds(choice.choice);
    if (!seconds || was_tried(choice)) continue;
    choice.choice.seconds = *seconds;
    list.push_back(std::move(choice));
  }
  return list;
}

bool StageSource::was_tried(const PipelineCandidate& choice) const {
  return std::ranges::any_of(tried_,
                             [&](const auto& entry) { return are_equal(entry.second, choice); });
}

const PipelineCandidate* StageSource::best_choice(const PlanSearchResult& known) const {
  if (!known.best) return nullptr;
  const auto found = tried_.find(known.candidates[*known.best].candidate.name);
  return found == tried_.end() ? nullptr : &found->second;
}

std::vector<PipelineCandidate> StageSource::neighbours(const PlanSearchResult& known) {
  const PipelineCandidate* known_choice = best_choice(known);
  if (!known_choice) return {};
  const EvaluatedCandidate& best = known.candidates[*known.best];
  const bool is_known = std::exchange(neighbours_of_, best.candidate.name) == best.candidate.name;
  if (is_known && search_->simulates_few()) return {};
  // The estimate of a neighbour is as wrong as that of the best one.
  const auto& [choice, strategy] = *known_choice;
  const double error = best.step().value() / choice.seconds;
  std::vector<PipelineCandidate> list =
      search_->of_strategy(strategy, search_->stages(strategy).neighbours(choice));
  std::erase_if(list, [&](const PipelineCandidate& each) { return was_tried(each); });
  for (PipelineCandidate& each : list) each.choice.seconds *= error;
  const size_t trials = search_->simulates_few() ? kSearchPolicy.few_neighbour_trials
                                                 : kSearchPolicy.neighbour_trials;
  if (list.size() > trials) list.resize(trials);
  return list;
}

std::vector<PipelineCandidate> StageSource::with_two_stages(const PlanSearchResult& known) {
  if (fixes_decision(search_->constraints(), "schedule") || splits_++ >= kSearchPolicy.split_rounds)
    return {};
  const double best =
      best_step(known).value_or(Seconds(std::numeric_limits<double>::infinity())).value();
  // At first estimates of memory may be too high, and then as wrong as what does not fit shows.
  const std::vector<std::vector<double>> missed = missed_of_splits(known, best);
  if (splits_ > 1 && std::ranges::all_of(missed, &std::vector<double>::empty)) return {};
  for (size_t strategy = 0; strategy < search_->size(); ++strategy)
    search_->stages(strategy).reserve_memory(splits_ == 1 ? search_->memory_margin()
                                                          : missed[strategy]);
  std::vector<PipelineCandidate> list;
  double error = 1;  // of the fastest pipeline of several micro-batches; those of others are alike
  for (const EvaluatedCandidate& each : known.candidates) {
    const auto found = tried_.find(each.candidate.name);
    if (!each.fits() || found == tried_.end() || found->second.choice.micro_batches == 1) continue;
    const auto& [choice, strategy] = found->second;
    error = each.step().value() / choice.seconds;
    list = search_->of_strategy(strategy, search_->stages(strategy).with_two_stages(choice));
    break;
  }
  std::ranges::move(search_->splits(best / error), std::back_inserter(list));
  for (PipelineCandidate& split : list) split.choice.seconds *= error;
  std::erase_if(list, [&](const PipelineCandidate& split) {
    return split.choice.seconds >= search_->split_margin_of(split.strategy) * best ||
           was_tried(split);
  });
  std::ranges::stable_sort(list, {},
                           [](const PipelineCandidate& each) { return each.choice.seconds; });
  keep_unequal(list);
  // The estimates of different schedules are not equally good, and what is computed again will be
  // limited: the fastest of each come first.
  std::set<std::pair<size_t, PipelineKind>> firsts;
  std::ranges::stable_partition(list, [&](const PipelineCandidate& split) {
    const bool recomputes = search_->recomputes(split.strategy);
    return firsts
        .emplace(recomputes ? split.strategy : 0,
                 recomputes ? PipelineKind::kInterleaved : split.choice.schedule)
        .second;
  });
  list.resize(std::min(list.size(), std::max(kSearchPolicy.split_trials, firsts.size())));
  return list;
}

std::vector<std::vector<double>> StageSource::missed_of_splits(const PlanSearchResult& known,
                                                               double best) const {
  std::vector<std::vector<double>> missed(search_->size());
  std::vector<double> seconds;
  for (size_t strategy = 0; strategy < missed.size(); ++strategy)
    seconds.push_back(search_->split_margin_of(strategy) * best);
  for (const EvaluatedCandidate& each : known.candidates) {
    const auto found = tried_.find(each.candidate.name);
    if (each.fits() || found == tried_.end() || !found->second.choice.has_two_stages()) continue;
    const auto& [choice, strategy] = found->second;
    if (choice.seconds >= seconds[strategy]) continue;
    seconds[strategy] = choice.seconds;
    missed[strategy] = missed_by(choice, each);
  }
  return missed;
}

std::vector<Candidate> StageSource::candidates(const PlanRequest& request,
                                               std::vector<PipelineCandidate> choices) {
  if (!search_->constraints().hardware.empty())
    for (PipelineCandidate& each : choices) search_->add_hardware(each);
  std::vector<std::optional<Candidate>> made(choices.size());
  on_all_cores(std::ssize(choices), [&](int64_t i) {
    made[i] = candidate_of(request, search_->decisions(), choices[i].choice,
                           search_->divisions(choices[i].strategy));
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
  constexpr int kRounds = 1 + kSearchPolicy.searches_again + 2 * kSearchPolicy.neighbour_rounds +
                          kSearchPolicy.split_rounds;
  std::vector<CandidateSource> sources = placement_searches();
  const auto source = std::make_shared<StageSource>();
  const CandidateSource round{"pipelines", "stages and their devices, then around the best of them",
                              [source](const auto&... known) { return (*source)(known...); }};
  sources.insert(sources.end(), kRounds, round);
  return sources;
}

}  // namespace tessera
