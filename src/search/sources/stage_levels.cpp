#include "search/sources/stage_levels.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "presets/presets.h"
#include "search/candidates/long_steps.h"
#include "search/sources/stage_hardware.h"
#include "stage_search/choice_clock.h"

namespace tessera {
namespace {

/// Pipelines are compiled whose estimate is at most so much above the best step.
constexpr double kMargin = 1.04;
/// Those that compute results again: a limit of what is kept will make them faster.
constexpr double kRecomputeMargin = 1.1;
/// Estimates of memory are too high by up to so much: pipelines that would fit then are compiled.
constexpr double kMemoryMargin = 0.08;

StageSearchOptions with_boundaries(StageSearchOptions options, const StageDivisions& divisions) {
  options.boundaries = divisions.boundaries();
  return options;
}

/// Does it fit only with the margin that its stages have?
bool needs_margin(const PipelineChoice& choice) {
  const std::vector<double> bytes = clock_memory(choice);
  for (size_t s = 0; s < bytes.size(); ++s)
    if (bytes[s] * (1 + kMemoryMargin) > choice.stages[s].capacity) return true;
  return false;
}

StageSearchOptions with_ranks(StageSearchOptions options, const PlanRequest& request,
                              const ModelLine& line, const Deployment& deployment,
                              const PlanConstraints& constraints) {
  options.ranks = unit_ranks(request.graph, line, deployment, constraints);
  return options;
}

}  // namespace

double least_seconds(const std::vector<StagedChoice>& choices) {
  double least = std::numeric_limits<double>::infinity();
  for (const StagedChoice& each : choices) least = std::min(least, each.choice.seconds);
  return least;
}

StageLevels::Level::Level(StageLevels& all, const StageSavings& savings)
    : divisions(all.request_, all.constraints_, all.line_, DeviceRuns(all.deployment_),
                all.options_.micro_batches.front(), savings, all.graphs_),
      stages(divisions.line(), divisions.ways(), all.deployment_,
             with_boundaries(all.options_, divisions)) {}

StageLevels::StageLevels(const PlanRequest& request, const PlanConstraints& constraints,
                         StageSearchOptions options, Deployment deployment)
    : request_(request),
      constraints_(constraints),
      decisions_(decisions_of(constraints)),
      deployment_(std::move(deployment)),
      line_(stage_line(request, constraints)),
      options_(with_ranks(std::move(options), request, *line_, deployment_, constraints)) {
  add_level({decisions_.recompute});
  // Of many ranks states stay whole: the simulation of PanGu's divided states took 20 GiB.
  if (!are_many()) add_level({decisions_.recompute, 1});
  first_levels_ = levels_.size();
}

bool StageLevels::are_many() const {
  return std::ssize(deployment_.device_of_rank) > kManyRanks;
}

bool StageLevels::takes_few() const {
  return are_many() || is_long(request_.graph, std::ranges::max(options_.micro_batches));
}

double StageLevels::margin_of(size_t level) const {
  return recomputes(level) ? kRecomputeMargin : kMargin;
}

double StageLevels::split_margin_of(size_t level) const {
  return takes_few() && !recomputes(level) ? 1 : margin_of(level);
}

std::vector<double> StageLevels::memory_margin() const {
  std::vector<double> withheld;
  for (Rank rank = 0; rank < std::ssize(deployment_.device_of_rank); ++rank) {
    const DeviceType& type = deployment_.type(rank);
    withheld.push_back(-kMemoryMargin * static_cast<double>((type.memory - type.reserve).value()));
  }
  return withheld;
}

void StageLevels::add_level(const StageSavings& savings) {
  levels_.push_back(std::make_unique<Level>(*this, savings));
}

std::vector<StagedChoice> StageLevels::first() {
  std::vector<StagedChoice> list = with_margin(0);
  for (size_t level = 1; level < first_levels_; ++level)
    for (StagedChoice& divided : with_margin(level)) {
      const auto is_as_fast = [&](const StagedChoice& known) {
        return known.choice.has_ways_of(divided.choice) &&
               known.choice.seconds <= divided.choice.seconds;
      };
      if (std::ranges::none_of(list, is_as_fast)) list.push_back(std::move(divided));
    }
  if (list.empty() || binds([this](size_t level) { return best_of(level); }, list))
    std::ranges::move(of_further_levels(), std::back_inserter(list));
  if (takes_few()) keep_unlike(list);
  return list;
}

std::vector<StagedChoice> StageLevels::with_margin(size_t level) {
  if (are_many()) return best_of(level);
  StageSearch& stages = levels_[level]->stages;
  stages.withhold(memory_margin());
  std::vector<PipelineChoice> list = stages.best();
  stages.withhold({});
  if (std::ranges::any_of(list, needs_margin))
    std::ranges::move(stages.best(), std::back_inserter(list));
  return of_level(level, std::move(list));
}

std::vector<StagedChoice> StageLevels::best_of(size_t level) {
  return of_level(level, levels_[level]->stages.best());
}

std::vector<StagedChoice> StageLevels::of_further_levels(const std::vector<double>& withheld) {
  using Kind = Recompute::Kind;
  std::vector<StagedChoice> list;
  if (levels_.size() > first_levels_ || fixes_decision(constraints_, "recompute")) return list;
  // States are divided at once, since that takes hardly any time: the gradients are summed and the
  // parameters gathered in either case.
  const int zero = are_many() ? 0 : 1;
  for (const Kind kind : {Kind::kSelective, Kind::kFull}) {
    add_level({{kind}, zero});
    levels_.back()->stages.withhold(withheld);
    std::ranges::move(best_of(levels_.size() - 1), std::back_inserter(list));
  }
  keep_fastest(list);
  return list;
}

std::vector<StagedChoice> StageLevels::splits(double best) {
  std::vector<StagedChoice> list;
  const SearchOfLevel of = [&](size_t level) {
    const double limit = split_margin_of(level) * best;
    return of_level(level, levels_[level]->stages.best_with_two_stages(limit));
  };
  const size_t known = levels_.size();
  for (size_t level = 0; level < known; ++level)
    std::ranges::move(of(level), std::back_inserter(list));
  if (known == first_levels_ && binds(of, list)) of_further_levels(memory_margin());
  for (size_t level = known; level < levels_.size(); ++level)
    std::ranges::move(of(level), std::back_inserter(list));
  return list;
}

bool StageLevels::binds(const SearchOfLevel& search, const std::vector<StagedChoice>& list) {
  StageSearch& stages = levels_.front()->stages;
  if (stages.fits_in_one_stage()) return false;
  stages.withhold(std::vector<double>(deployment_.device_of_rank.size(),
                                      -std::numeric_limits<double>::infinity()));
  const double least = least_seconds(search(0));
  stages.withhold({});
  return least < least_seconds(list);
}

std::vector<StagedChoice> StageLevels::of_level(size_t level,
                                                std::vector<PipelineChoice> choices) const {
  const std::vector<StageWay>& ways = levels_[level]->divisions.ways();
  const auto has_data = [&](const StageChoice& stage) {
    const Mesh& mesh = *ways[stage.way].mesh;
    return mesh.axes().front() == kDataAxis && mesh.shape()[0] > 1;
  };
  const bool is_twin = level > 0 && level < first_levels_;
  std::vector<StagedChoice> list;
  for (PipelineChoice& choice : choices)
    if (!is_twin || std::ranges::any_of(choice.stages, has_data))
      list.push_back({std::move(choice), level});
  return list;
}

void StageLevels::keep_fastest(std::vector<StagedChoice>& list) const {
  std::ranges::stable_sort(list, {}, [](const StagedChoice& each) { return each.choice.seconds; });
  std::vector<StagedChoice> kept;
  std::set<size_t> known;  // levels
  for (StagedChoice& each : list)
    if (const bool is_first = known.insert(each.level).second;
        is_first || kept.size() < options_.max_answers)
      kept.push_back(std::move(each));
  list = std::move(kept);
}

void StageLevels::keep_unlike(std::vector<StagedChoice>& list) const {
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

void StageLevels::add_hardware(StagedChoice& staged) const {
  const std::vector<StageWay>& ways = levels_[staged.level]->divisions.ways();
  for (size_t i = 0; i < staged.choice.stages.size(); ++i)
    staged.choice.stages[i].hardware =
        common_type(deployment_, mesh_of(staged.choice, i, ways)->ranks());
}

}  // namespace tessera
