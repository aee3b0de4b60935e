#include "stage_search/stage_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/threads/on_all_cores.h"
#include "stage_search/choice_clock.h"
#include "stage_search/stage_program.h"

namespace tessera {
namespace {

/// Answers of one micro-batch, beside the others: the clock does not know how well weight gradients
/// overlap there.
constexpr size_t kOfOneMicroBatch = 2;
/// Stages of which two cuts are moved in all combinations.
constexpr size_t kFewStages = 4;
/// A device has at most so many micro-batches in flight for each stage behind it (zb-h2).
constexpr int kInFlightOfAStage = 2;

/// Keeps the first of each kind and sorts by time.
void sort_unique(std::vector<PipelineChoice>& choices) {
  std::ranges::stable_sort(choices, {}, &PipelineChoice::seconds);
  std::vector<PipelineChoice> unique;
  for (PipelineChoice& choice : choices)
    if (std::ranges::none_of(unique, [&](const PipelineChoice& known) {
          return known.micro_batches == choice.micro_batches && known.schedule == choice.schedule &&
                 known.has_stages_of(choice);
        }))
      unique.push_back(std::move(choice));
  choices = std::move(unique);
}

void add_clocked(const ModelLine& line, PipelineChoice choice, PipelineKind schedule,
                 std::vector<PipelineChoice>& list) {
  if (std::optional<PipelineChoice> made = on_clock(line, std::move(choice), schedule))
    list.push_back(*std::move(made));
}

/// The first ones, of which at most two differ in cuts and schedule only.
std::vector<PipelineChoice> few_of_like(const std::vector<PipelineChoice>& choices, size_t most) {
  std::vector<PipelineChoice> few;
  for (const PipelineChoice& choice : choices) {
    const auto is_like = [&](const PipelineChoice& known) { return known.has_ways_of(choice); };
    if (few.size() < most && std::ranges::count_if(few, is_like) < 2) few.push_back(choice);
  }
  return few;
}

/// The time of one micro-batch through towers is that of the longest one, which is not known
/// before: for each tower where its stages count alone, and where those of all count a part of
/// their time. Stages end with their tower. Empty without towers.
std::vector<StageSearchOptions> with_towers(const ModelLine& line,
                                            const StageSearchOptions& options) {
  const std::vector<ModelLine::Run> towers = line.towers();
  StageSearchOptions between = options;
  for (const ModelLine::Run& tower : towers)
    for (const int unit : {tower.begin, tower.end})
      if (unit > 0 && unit < line.units()) between.boundaries.push_back(unit);
  std::ranges::sort(between.boundaries);
  std::vector<StageSearchOptions> list;
  const auto add = [&](const auto& weight_of_tower) {
    list.push_back(between);
    std::vector<double>& weights = list.back().chain_weights;
    weights.assign(line.units(), 1);
    for (size_t i = 0; i < towers.size(); ++i)
      std::fill(weights.begin() + towers[i].begin, weights.begin() + towers[i].end,
                weight_of_tower(i));
  };
  for (size_t longest = 0; longest < towers.size(); ++longest)
    add([&](size_t tower) { return tower == longest ? 1.0 : 0.0; });
  if (!towers.empty()) add([&](size_t) { return 1 / static_cast<double>(towers.size()); });
  return list;
}

/// Without the numbers of micro-batches that do not divide what is divided by them.
StageSearchOptions with_allowed_counts(StageSearchOptions options,
                                       const std::vector<StageWay>& ways) {
  std::erase_if(options.micro_batches, [&](int64_t count) {
    return std::ranges::any_of(ways,
                               [&](const StageWay& way) { return !way.model->allows(count); });
  });
  return options;
}

}  // namespace

StageSearch::StageSearch(const ModelLine& line, const std::vector<StageWay>& ways,
                         const Deployment& deployment, StageSearchOptions options)
    : line_(line),
      ways_(ways),
      deployment_(deployment),
      options_(with_allowed_counts(std::move(options), ways)),
      runs_(deployment) {}

const SegmentCosts& StageSearch::costs_of(int64_t micro_batches) {
  std::unique_ptr<const SegmentCosts>& costs = costs_[micro_batches];
  if (!costs)
    costs = std::make_unique<const SegmentCosts>(line_, ways_, deployment_, runs_, micro_batches);
  return *costs;
}

std::vector<PipelineChoice> StageSearch::best() {
  chains_.clear();
  std::vector<int64_t> several = options_.micro_batches;
  const bool has_one = std::erase(several, 1) > 0;
  std::vector<PipelineChoice> list = best_of(several, options_.max_answers);
  if (has_one) std::ranges::move(best_of({1}, kOfOneMicroBatch), std::back_inserter(list));
  return list;
}

bool StageSearch::fits_in_one_stage() {
  for (const int64_t count : options_.micro_batches) {
    const SegmentCosts& costs = costs_of(count);
    const auto in_flight =
        static_cast<double>(std::min<int64_t>(count, kInFlightOfAStage * options_.max_stages));
    for (int kind = 0; kind < runs_.kinds(); ++kind)
      for (const int way : costs.ways_of(kind))
        if (memory_of(costs.of(kind, way, 0, line_.units()), in_flight) > costs.capacity(kind))
          return false;
  }
  return true;
}

std::vector<EqualStages> StageSearch::equal_stages() const {
  if (runs_.ranks() <= kManyRanks) return {EqualStages{}};
  std::vector<EqualStages> list;
  for (int way = 0; way < std::ssize(ways_); ++way) {
    const int size = ways_[way].mesh->size(), stages = runs_.ranks() / size;
    if (runs_.ranks() % size == 0 && stages <= options_.max_stages &&
        stages >= options_.min_stages && options_.stages.value_or(stages) == stages)
      list.push_back({way, stages});
  }
  return list;
}

std::vector<PipelineChoice> StageSearch::shortest(const std::vector<int64_t>& counts,
                                                  const StageSearchOptions& options) {
  const std::vector<EqualStages> equals = equal_stages();
  const int64_t tries = 2 * std::ssize(equals);
  std::vector<std::vector<PipelineChoice>> found(tries * counts.size());
  on_all_cores(std::ssize(found), [&](int64_t i) {
    const int64_t count = counts[i / tries];
    const ChainOf chain = i % 2 == 0 ? ChainOf::kWholeBackward : ChainOf::kSplitBackward;
    const EqualStages& equal = equals[i % tries / 2];
    const RunCapacities capacities{runs_, withheld_};
    found[i] = shortest_chains(line_, capacities, *costs_.at(count), options, count, chain, equal);
  });
  std::vector<PipelineChoice> chains;
  for (std::vector<PipelineChoice>& list : found)
    std::ranges::move(list, std::back_inserter(chains));
  sort_unique(chains);
  keep_unlike_chains(chains);
  const size_t most = options.effort.clocked * options.max_answers;
  if (chains.size() > most) chains.resize(most);
  return chains;
}

std::vector<PipelineChoice> StageSearch::best_of(const std::vector<int64_t>& counts, size_t most) {
  for (int64_t count : counts) costs_of(count);
  std::vector<PipelineChoice> chains = shortest(counts, options_), clocked;
  // Their times leave parts of towers out, so that they do not compete with the others yet.
  for (const StageSearchOptions& options : with_towers(line_, options_))
    std::ranges::move(shortest(counts, options), std::back_inserter(chains));
  for (PipelineChoice& chain : chains) set_shared(chain);
  for (const PipelineChoice& chain : chains)
    for (const PipelineKind schedule : options_.schedules)
      add_clocked(line_, chain, schedule, clocked);
  sort_unique(clocked);
  for (const PipelineChoice& start : few_of_like(clocked, options_.effort.climbs))
    climb(start, clocked);
  sort_unique(clocked);
  clocked = few_of_like(clocked, most);
  if (runs_.ranks() > kManyRanks && options_.ranks.empty()) place_data_outside(clocked);
  return clocked;
}

void StageSearch::keep_unlike_chains(const std::vector<PipelineChoice>& chains) {
  for (const PipelineChoice& chain : chains)
    if (std::ranges::none_of(chains_,
                             [&](const PipelineChoice& known) { return known.has_ways_of(chain); }))
      chains_.push_back(chain);
}

void StageSearch::climb(PipelineChoice choice, std::vector<PipelineChoice>& list) {
  for (int step = 0; step < options_.effort.steps; ++step) {
    std::vector<PipelineChoice> near = neighbours(choice);
    if (near.empty() || near.front().seconds >= choice.seconds) return;
    choice = std::move(near.front());
    list.push_back(choice);
  }
}

PipelineChoice StageSearch::priced(PipelineChoice choice) {
  const SegmentCosts& costs = costs_of(choice.micro_batches);
  const StageChoice* before = nullptr;
  for (StageChoice& stage : choice.stages) {
    const int size = ways_[stage.way].mesh->size();
    stage.cost =
        costs.of(runs_.kind(stage.first, size), stage.way, stage.first_unit, stage.end_unit);
    stage.transfer = before ? costs.transfer(stage.way, stage.first_unit, stage.first,
                                             before->first, ways_[before->way].mesh->size())
                            : 0;
    stage.capacity = RunCapacities{runs_, withheld_}.of(costs, stage.first, size);
    before = &stage;
  }
  set_shared(choice);
  return choice;
}

void StageSearch::set_shared(PipelineChoice& choice) {
  choice.shared.clear();
  const auto stage_of = [&](int unit) {
    return std::ranges::upper_bound(choice.stages, unit, {}, &StageChoice::first_unit) - 1;
  };
  for (const ModelLine::SharedVariable& variable : line_.shared) {
    const auto from = stage_of(variable.reader), to = stage_of(variable.home);
    if (from->first == to->first) continue;
    choice.shared.push_back(
        {static_cast<int>(from - choice.stages.begin()),
         static_cast<int>(to - choice.stages.begin()),
         costs_of(choice.micro_batches)
             .message(variable.bytes, from->first, ways_[from->way].mesh->size(), to->first,
                      ways_[to->way].mesh->size())});
  }
}

bool StageSearch::may_be(const PipelineChoice& choice) const {
  return std::ranges::all_of(choice.stages, [&](const StageChoice& stage) {
    return stage.units() > 0 &&
           stage.end_unit <= last_end(options_.boundaries, stage.first_unit, line_.units()) &&
           stage.end_unit <= last_end(options_.ranks, stage.first_unit, stage.first,
                                      ways_[stage.way].mesh->size(), line_.units());
  });
}

std::vector<PipelineChoice> StageSearch::with_other_cuts(const PipelineChoice& choice) const {
  std::vector<PipelineChoice> others;
  const auto add = [&](size_t cut, int step, int next_step) {
    PipelineChoice other = choice;
    other.stages[cut - 1].end_unit = other.stages[cut].first_unit += step;
    if (next_step != 0) other.stages[cut].end_unit = other.stages[cut + 1].first_unit += next_step;
    if (may_be(other)) others.push_back(std::move(other));
  };
  constexpr int kStepsOfCuts[] = {-2, -1, 1, 2};
  const bool are_few = choice.stages.size() <= kFewStages;
  for (size_t cut = 1; cut < choice.stages.size(); ++cut)
    for (const int step : kStepsOfCuts) {
      add(cut, step, 0);
      if (cut + 1 == choice.stages.size()) continue;
      for (const int next_step : kStepsOfCuts)
        if (are_few || next_step == step) add(cut, step, next_step);
    }
  return others;
}

std::vector<PipelineChoice> StageSearch::with_other_ways(const PipelineChoice& choice) const {
  std::vector<PipelineChoice> others;
  if (runs_.ranks() > kManyRanks) return others;  // all stages have one way
  for (size_t i = 0; i < choice.stages.size(); ++i)
    for (int way = 0; way < std::ssize(ways_); ++way) {
      const int present = choice.stages[i].way;
      if (way == present || ways_[way].mesh->size() != ways_[present].mesh->size()) continue;
      others.push_back(choice);
      others.back().stages[i].way = way;
    }
  return others;
}

std::vector<PipelineChoice> StageSearch::neighbours(const PipelineChoice& choice) {
  std::vector<PipelineChoice> others = with_other_cuts(choice);
  if (!choice.has_two_stages())
    std::ranges::move(with_other_ways(choice), std::back_inserter(others));
  for (const int64_t count : options_.micro_batches)
    if (count != choice.micro_batches && count > 1 && choice.micro_batches > 1) {
      others.push_back(choice);
      others.back().micro_batches = count;
    }
  std::vector<PipelineChoice> clocked;
  for (PipelineChoice& other : others)
    add_clocked(line_, priced(std::move(other)), choice.schedule, clocked);
  for (const PipelineKind schedule : options_.schedules)
    if (schedule != choice.schedule && !choice.has_two_stages())
      add_clocked(line_, choice, schedule, clocked);
  sort_unique(clocked);
  return clocked;
}

}  // namespace tessera
