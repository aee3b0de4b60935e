#include "planner/search/internal/sources/memory_strategies.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "planner/pipeline/pipeline_simulator.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/candidates/long_steps.h"
#include "planner/search/sources/stage_hardware.h"

namespace tessera {
namespace {

StageSearchOptions with_boundaries(StageSearchOptions options, const StageDivisions& divisions) {
  options.boundaries = divisions.boundaries();
  return options;
}

/// Does it fit only with the margin that its stages have?
bool needs_margin(const PipelineChoice& choice) {
  const std::vector<double> bytes = simulated_memory(choice);
  for (size_t s = 0; s < bytes.size(); ++s)
    if (bytes[s] * (1 + kSearchPolicy.memory_margin) > choice.stages[s].capacity) return true;
  return false;
}

StageSearchOptions with_ranks(StageSearchOptions options, const PlanRequest& request,
                              const LayerSequence& sequence, const Deployment& deployment,
                              const PlanConstraints& constraints) {
  options.ranks = unit_ranks(request.graph, sequence, deployment, constraints);
  return options;
}

}  // namespace

double min_seconds(const std::vector<PipelineCandidate>& choices) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const PipelineCandidate& each : choices) smallest = std::min(smallest, each.choice.seconds);
  return smallest;
}

MemoryStrategies::StrategySearch::StrategySearch(MemoryStrategies& all,
                                                 const MemoryStrategy& memory_strategy)
    : divisions(all.request_, all.constraints_, all.sequence_, DeviceRuns(all.deployment_),
                all.options_.micro_batches.front(), memory_strategy, all.graphs_),
      stages(divisions.sequence(), divisions.stage_shardings(), all.deployment_,
             with_boundaries(all.options_, divisions)) {}

MemoryStrategies::MemoryStrategies(const PlanRequest& request, const PlanConstraints& constraints,
                                   StageSearchOptions options, Deployment deployment)
    : request_(request),
      constraints_(constraints),
      decisions_(decisions_of(constraints)),
      deployment_(std::move(deployment)),
      sequence_(stage_line(request, constraints)),
      options_(with_ranks(std::move(options), request, *sequence_, deployment_, constraints)) {
  add_strategy({decisions_.recompute});
  // Of many ranks states stay whole: the simulation of PanGu's divided states took 20 GiB.
  if (!are_many()) add_strategy({decisions_.recompute, 1});
  first_strategies_ = searches_.size();
}

bool MemoryStrategies::are_many() const {
  return std::ssize(deployment_.device_of_rank) > kSearchPolicy.many_ranks;
}

bool MemoryStrategies::simulates_few() const {
  return are_many() || is_long(request_.graph, std::ranges::max(options_.micro_batches));
}

double MemoryStrategies::margin_of(size_t strategy) const {
  return recomputes(strategy) ? kSearchPolicy.recompute_margin : kSearchPolicy.estimate_margin;
}

double MemoryStrategies::split_margin_of(size_t strategy) const {
  return simulates_few() && !recomputes(strategy) ? 1 : margin_of(strategy);
}

std::vector<double> MemoryStrategies::memory_margin() const {
  std::vector<double> reserved_memory;
  for (Rank rank = 0; rank < std::ssize(deployment_.device_of_rank); ++rank) {
    const DeviceType& type = deployment_.type(rank);
    reserved_memory.push_back(-kSearchPolicy.memory_margin *
                              static_cast<double>((type.memory - type.reserve).value()));
  }
  return reserved_memory;
}

void MemoryStrategies::add_strategy(const MemoryStrategy& memory_strategy) {
  searches_.push_back(std::make_unique<StrategySearch>(*this, memory_strategy));
}

std::vector<PipelineCandidate> MemoryStrategies::first() {
  std::vector<PipelineCandidate> list = with_margin(0);
  for (size_t strategy = 1; strategy < first_strategies_; ++strategy)
    for (PipelineCandidate& divided : with_margin(strategy)) {
      const auto is_as_fast = [&](const PipelineCandidate& known) {
        return known.choice.has_stage_shardings_of(divided.choice) &&
               known.choice.seconds <= divided.choice.seconds;
      };
      if (std::ranges::none_of(list, is_as_fast)) list.push_back(std::move(divided));
    }
  if (list.empty() || binds([this](size_t strategy) { return best_of(strategy); }, list))
    std::ranges::move(of_recomputing_strategies(), std::back_inserter(list));
  if (simulates_few()) keep_distinct(list);
  return list;
}

std::vector<PipelineCandidate> MemoryStrategies::with_margin(size_t strategy) {
  if (are_many()) return best_of(strategy);
  StageSearch& stages = searches_[strategy]->stages;
  stages.reserve_memory(memory_margin());
  std::vector<PipelineChoice> list = stages.best();
  stages.reserve_memory({});
  if (std::ranges::any_of(list, needs_margin))
    std::ranges::move(stages.best(), std::back_inserter(list));
  return of_strategy(strategy, std::move(list));
}

std::vector<PipelineCandidate> MemoryStrategies::best_of(size_t strategy) {
  return of_strategy(strategy, searches_[strategy]->stages.best());
}

std::vector<PipelineCandidate> MemoryStrategies::of_recomputing_strategies(
    const std::vector<double>& reserved_memory) {
  using Kind = Recompute::Kind;
  std::vector<PipelineCandidate> list;
  if (searches_.size() > first_strategies_ || fixes_decision(constraints_, "recompute"))
    return list;
  // States are divided at once, since that takes hardly any time: the gradients are summed and the
  // parameters gathered in either case.
  const int zero = are_many() ? 0 : 1;
  for (const Kind kind : {Kind::kSelective, Kind::kFull}) {
    add_strategy({{kind}, zero});
    searches_.back()->stages.reserve_memory(reserved_memory);
    std::ranges::move(best_of(searches_.size() - 1), std::back_inserter(list));
  }
  keep_fastest(list);
  return list;
}

std::vector<PipelineCandidate> MemoryStrategies::splits(double best) {
  std::vector<PipelineCandidate> list;
  const SearchOfStrategy of = [&](size_t strategy) {
    const double limit = split_margin_of(strategy) * best;
    return of_strategy(strategy, searches_[strategy]->stages.best_with_two_stages(limit));
  };
  const size_t known = searches_.size();
  for (size_t strategy = 0; strategy < known; ++strategy)
    std::ranges::move(of(strategy), std::back_inserter(list));
  if (known == first_strategies_ && binds(of, list)) of_recomputing_strategies(memory_margin());
  for (size_t strategy = known; strategy < searches_.size(); ++strategy)
    std::ranges::move(of(strategy), std::back_inserter(list));
  return list;
}

bool MemoryStrategies::binds(const SearchOfStrategy& search,
                             const std::vector<PipelineCandidate>& list) {
  StageSearch& stages = searches_.front()->stages;
  if (stages.fits_in_one_stage()) return false;
  stages.reserve_memory(std::vector<double>(deployment_.device_of_rank.size(),
                                            -std::numeric_limits<double>::infinity()));
  const double smallest = min_seconds(search(0));
  stages.reserve_memory({});
  return smallest < min_seconds(list);
}

std::vector<PipelineCandidate> MemoryStrategies::of_strategy(
    size_t strategy, std::vector<PipelineChoice> choices) const {
  const std::vector<StageSharding>& stage_shardings =
      searches_[strategy]->divisions.stage_shardings();
  const auto has_data = [&](const StageChoice& stage) {
    const Mesh& mesh = *stage_shardings[stage.stage_sharding].mesh;
    return mesh.axes().front() == kDataAxis && mesh.shape()[0] > 1;
  };
  const bool is_twin = strategy > 0 && strategy < first_strategies_;
  std::vector<PipelineCandidate> list;
  for (PipelineChoice& choice : choices)
    if (!is_twin || std::ranges::any_of(choice.stages, has_data))
      list.push_back({std::move(choice), strategy});
  return list;
}

void MemoryStrategies::keep_fastest(std::vector<PipelineCandidate>& list) const {
  std::ranges::stable_sort(list, {},
                           [](const PipelineCandidate& each) { return each.choice.seconds; });
  std::vector<PipelineCandidate> kept;
  std::set<size_t> known;  // levels
  for (PipelineCandidate& each : list)
    if (const bool is_first = known.insert(each.strategy).second;
        is_first || kept.size() < options_.max_results)
      kept.push_back(std::move(each));
  list = std::move(kept);
}

void MemoryStrategies::keep_distinct(std::vector<PipelineCandidate>& list) const {
  keep_fastest(list);
  std::vector<PipelineCandidate> kept;
  for (PipelineCandidate& each : list) {
    const auto is_identical = [&](const PipelineCandidate& known) {
      return known.strategy == each.strategy && known.choice.has_stage_shardings_of(each.choice);
    };
    if (std::ranges::none_of(kept, is_identical)) kept.push_back(std::move(each));
  }
  list = std::move(kept);
}

void MemoryStrategies::add_hardware(PipelineCandidate& staged) const {
  const std::vector<StageSharding>& stage_shardings =
      searches_[staged.strategy]->divisions.stage_shardings();
  for (size_t i = 0; i < staged.choice.stages.size(); ++i)
    staged.choice.stages[i].hardware =
        common_type(deployment_, mesh_of(staged.choice, i, stage_shardings)->ranks());
}

}  // namespace tessera
