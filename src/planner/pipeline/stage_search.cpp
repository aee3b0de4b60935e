#include "planner/pipeline/stage_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/threads/on_all_cores.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/pipeline/stage_program.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

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

void add_simulated(const LayerSequence& sequence, PipelineChoice choice, PipelineKind schedule,
                   std::vector<PipelineChoice>& list) {
  if (std::optional<PipelineChoice> made = simulate_pipeline(sequence, std::move(choice), schedule))
    list.push_back(*std::move(made));
}

/// The first ones, of which at most two differ in cuts and schedule only.
std::vector<PipelineChoice> few_of_identical(const std::vector<PipelineChoice>& choices,
                                             size_t largest) {
  std::vector<PipelineChoice> few;
  for (const PipelineChoice& choice : choices) {
    const auto is_identical = [&](const PipelineChoice& known) {
      return known.has_stage_shardings_of(choice);
    };
    if (few.size() < largest && std::ranges::count_if(few, is_identical) < 2) few.push_back(choice);
  }
  return few;
}

/// The time of one micro-batch through branches is that of the longest one, which is not known
/// before: for each branch where its stages count alone, and where those of all count a part of
/// their time. Stages end with their branch. Empty without branches.
std::vector<StageSearchOptions> with_branches(const LayerSequence& sequence,
                                              const StageSearchOptions& options) {
  const std::vector<LayerSequence::Run> branches = sequence.branches();
  StageSearchOptions between = options;
  for (const LayerSequence::Run& branch : branches)
    for (const int unit : {branch.begin, branch.end})
      if (unit > 0 && unit < sequence.units()) between.boundaries.push_back(unit);
  std::ranges::sort(between.boundaries);
  std::vector<StageSearchOptions> list;
  const auto add = [&](const auto& weight_of_branch) {
    list.push_back(between);
    std::vector<double>& weights = list.back().chain_weights;
    weights.assign(sequence.units(), 1);
    for (size_t i = 0; i < branches.size(); ++i)
      std::fill(weights.begin() + branches[i].begin, weights.begin() + branches[i].end,
                weight_of_branch(i));
  };
  for (size_t longest = 0; longest < branches.size(); ++longest)
    add([&](size_t branch) { return branch == longest ? 1.0 : 0.0; });
  if (!branches.empty()) add([&](size_t) { return 1 / static_cast<double>(branches.size()); });
  return list;
}

/// Without the numbers of micro-batches that do not divide what is divided by them.
StageSearchOptions with_allowed_counts(StageSearchOptions options,
                                       const std::vector<StageSharding>& stage_shardings) {
  std::erase_if(options.micro_batches, [&](int64_t count) {
    return std::ranges::any_of(stage_shardings, [&](const StageSharding& stage_sharding) {
      return !stage_sharding.model->allows(count);
    });
  });
  return options;
}

}  // namespace

StageSearch::StageSearch(const LayerSequence& sequence,
                         const std::vector<StageSharding>& stage_shardings,
                         const Deployment& deployment, StageSearchOptions options)
    : sequence_(sequence),
      stage_shardings_(stage_shardings),
      deployment_(deployment),
      options_(with_allowed_counts(std::move(options), stage_shardings)),
      runs_(deployment) {}

const SegmentCosts& StageSearch::costs_of(int64_t micro_batches) {
  std::unique_ptr<const SegmentCosts>& costs = costs_[micro_batches];
  if (!costs)
    costs = std::make_unique<const SegmentCosts>(sequence_, stage_shardings_, deployment_, runs_,
                                                 micro_batches);
  return *costs;
}

std::vector<PipelineChoice> StageSearch::best() {
  chains_.clear();
  std::vector<int64_t> several = options_.micro_batches;
  const bool has_one = std::erase(several, 1) > 0;
  std::vector<PipelineChoice> list = best_of(several, options_.max_results);
  if (has_one)
    std::ranges::move(best_of({1}, kSearchPolicy.of_one_micro_batch), std::back_inserter(list));
  return list;
}

bool StageSearch::fits_in_one_stage() {
  for (const int64_t count : options_.micro_batches) {
    const SegmentCosts& costs = costs_of(count);
    const auto in_flight = static_cast<double>(
        std::min<int64_t>(count, kSearchPolicy.in_flight_of_a_stage * options_.max_stages));
    for (int kind = 0; kind < runs_.kinds(); ++kind)
      for (const int stage_sharding : costs.stage_shardings(kind))
        if (memory_of(costs.price(kind, stage_sharding, 0, sequence_.units()), in_flight) >
            costs.capacity(kind))
          return false;
  }
  return true;
}

std::vector<EqualStages> StageSearch::equal_stages() const {
  if (runs_.ranks() <= kSearchPolicy.many_ranks) return {EqualStages{}};
  std::vector<EqualStages> list;
  for (int stage_sharding = 0; stage_sharding < std::ssize(stage_shardings_); ++stage_sharding) {
    const int size = stage_shardings_[stage_sharding].mesh->size(), stages = runs_.ranks() / size;
    if (runs_.ranks() % size == 0 && stages <= options_.max_stages &&
        stages >= options_.min_stages && options_.stages.value_or(stages) == stages)
      list.push_back({stage_sharding, stages});
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
    const RunCapacities capacities{runs_, reserved_memory_};
    found[i] =
        shortest_chains(sequence_, capacities, *costs_.at(count), options, count, chain, equal);
  });
  std::vector<PipelineChoice> chains;
  for (std::vector<PipelineChoice>& list : found)
    std::ranges::move(list, std::back_inserter(chains));
  sort_unique(chains);
  keep_distinct_chains(chains);
  const size_t largest = options.effort.simulated * options.max_results;
  if (chains.size() > largest) chains.resize(largest);
  return chains;
}

std::vector<PipelineChoice> StageSearch::best_of(const std::vector<int64_t>& counts,
                                                 size_t largest) {
  for (int64_t count : counts) costs_of(count);
  std::vector<PipelineChoice> chains = shortest(counts, options_), simulated;
  // Their times leave parts of branches out, so that they do not compete with the others yet.
  for (const StageSearchOptions& options : with_branches(sequence_, options_))
    std::ranges::move(shortest(counts, options), std::back_inserter(chains));
  for (PipelineChoice& chain : chains) set_shared(chain);
  for (const PipelineChoice& chain : chains)
    for (const PipelineKind schedule : options_.schedules)
      add_simulated(sequence_, chain, schedule, simulated);
  sort_unique(simulated);
  for (const PipelineChoice& start : few_of_identical(simulated, options_.effort.climbs))
    climb(start, simulated);
  sort_unique(simulated);
  simulated = few_of_identical(simulated, largest);
  if (runs_.ranks() > kSearchPolicy.many_ranks && options_.ranks.empty())
    try_dp_outermost(simulated);
  return simulated;
}

void StageSearch::keep_distinct_chains(const std::vector<PipelineChoice>& chains) {
  for (const PipelineChoice& chain : chains)
    if (std::ranges::none_of(chains_, [&](const PipelineChoice& known) {
          return known.has_stage_shardings_of(chain);
        }))
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
    const int size = stage_shardings_[stage.stage_sharding].mesh->size();
    stage.cost = costs.price(runs_.kind(stage.first, size), stage.stage_sharding, stage.first_unit,
                             stage.end_unit);
    stage.transfer =
        before ? costs.transfer(stage.stage_sharding, stage.first_unit, stage.first, before->first,
                                stage_shardings_[before->stage_sharding].mesh->size())
               : 0;
    stage.capacity = RunCapacities{runs_, reserved_memory_}.at(costs, stage.first, size);
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
  for (const LayerSequence::SharedVariable& variable : sequence_.shared) {
    const auto from = stage_of(variable.reader), to = stage_of(variable.owner);
    if (from->first == to->first) continue;
    choice.shared.push_back(
        {static_cast<int>(from - choice.stages.begin()),
         static_cast<int>(to - choice.stages.begin()),
         costs_of(choice.micro_batches)
             .message(variable.bytes, from->first,
                      stage_shardings_[from->stage_sharding].mesh->size(), to->first,
                      stage_shardings_[to->stage_sharding].mesh->size())});
  }
}

bool StageSearch::may_be(const PipelineChoice& choice) const {
  return std::ranges::all_of(choice.stages, [&](const StageChoice& stage) {
    return stage.units() > 0 &&
           stage.end_unit <= last_end(options_.boundaries, stage.first_unit, sequence_.units()) &&
           stage.end_unit <= last_end(options_.ranks, stage.first_unit, stage.first,
                                      stage_shardings_[stage.stage_sharding].mesh->size(),
                                      sequence_.units());
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
  const bool are_few = choice.stages.size() <= kSearchPolicy.few_stages;
  for (size_t cut = 1; cut < choice.stages.size(); ++cut)
    for (const int step : kStepsOfCuts) {
      add(cut, step, 0);
      if (cut + 1 == choice.stages.size()) continue;
      for (const int next_step : kStepsOfCuts)
        if (are_few || next_step == step) add(cut, step, next_step);
    }
  return others;
}

std::vector<PipelineChoice> StageSearch::with_other_stage_shardings(
    const PipelineChoice& choice) const {
  std::vector<PipelineChoice> others;
  if (runs_.ranks() > kSearchPolicy.many_ranks)
    return others;  // all stages have one stage sharding
  for (size_t i = 0; i < choice.stages.size(); ++i)
    for (int stage_sharding = 0; stage_sharding < std::ssize(stage_shardings_); ++stage_sharding) {
      const int present = choice.stages[i].stage_sharding;
      if (stage_sharding == present ||
          stage_shardings_[stage_sharding].mesh->size() != stage_shardings_[present].mesh->size())
        continue;
      others.push_back(choice);
      others.back().stages[i].stage_sharding = stage_sharding;
    }
  return others;
}

std::vector<PipelineChoice> StageSearch::neighbours(const PipelineChoice& choice) {
  std::vector<PipelineChoice> others = with_other_cuts(choice);
  if (!choice.has_two_stages())
    std::ranges::move(with_other_stage_shardings(choice), std::back_inserter(others));
  for (const int64_t count : options_.micro_batches)
    if (count != choice.micro_batches && count > 1 && choice.micro_batches > 1) {
      others.push_back(choice);
      others.back().micro_batches = count;
    }
  std::vector<PipelineChoice> simulated;
  for (PipelineChoice& other : others)
    add_simulated(sequence_, priced(std::move(other)), choice.schedule, simulated);
  for (const PipelineKind schedule : options_.schedules)
    if (schedule != choice.schedule && !choice.has_two_stages())
      add_simulated(sequence_, choice, schedule, simulated);
  sort_unique(simulated);
  return simulated;
}

}  // namespace tessera
