#include "stage_search/stage_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/on_all_cores.h"
#include "schedule/clock.h"
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
/// The limit of a device on which no micro-batch fits.
constexpr double kNoMemory = -1;

/// What all stages of a device have together. Of what passes and what the optimizer takes one stage
/// has its own at a time.
struct DeviceCosts {
  double variables = 0, passing = 0, updating = 0, once = 0;
  double capacity = 0;

  double memory(double in_flight) const {
    return variables + std::max(in_flight + passing, updating);
  }
};

/// By device.
std::vector<DeviceCosts> device_costs(const PipelineChoice& choice) {
  std::vector<DeviceCosts> list(choice.devices());
  for (size_t s = 0; s < choice.stages.size(); ++s) {
    const StageChoice& stage = choice.stages[s];
    DeviceCosts& device = list[choice.device_of(s)];
    device.variables += stage.cost.variables;
    device.once += stage.cost.once;
    device.passing = std::max(device.passing, stage.cost.passing);
    device.updating = std::max(device.updating, stage.cost.updating);
    device.capacity = stage.capacity;
  }
  return list;
}

PipelineShape shape_of(const PipelineChoice& choice) {
  const int stages = static_cast<int>(choice.stages.size());
  const int devices = static_cast<int>(choice.devices());
  PipelineShape shape = chain_of(devices, stages / devices,
                                 choice.is_v() ? StagePlacement::kV : StagePlacement::kRoundRobin,
                                 static_cast<int>(choice.micro_batches));
  for (int s = 0; s < stages; ++s) {
    const StageChoice& stage = choice.stages[s];
    shape.stages[s].costs = {stage.cost.forward, stage.cost.input_gradient,
                             stage.cost.weight_gradient, stage.cost.kept,
                             stage.cost.kept - stage.cost.late};
    shape.transfer = std::max(shape.transfer, stage.transfer);
  }
  for (const DeviceCosts& device : device_costs(choice))
    shape.memory_limits.push_back(device.memory(0) <= device.capacity
                                      ? device.capacity - device.variables - device.passing
                                      : kNoMemory);
  return shape;
}

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

/// Does every stage read a result of the one before it? Schedules that split the backward take no
/// other stages.
bool is_chain(const ModelLine& line, const PipelineChoice& choice) {
  for (size_t i = 1; i < choice.stages.size(); ++i)
    if (!line.follows(choice.stages[i - 1].first_unit, choice.stages[i].first_unit,
                      choice.stages[i].end_unit))
      return false;
  return true;
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

/// Without the numbers of micro-batches that do not divide what is divided by them.
StageSearchOptions with_allowed_counts(StageSearchOptions options,
                                       const std::vector<StageWay>& ways) {
  std::erase_if(options.micro_batches, [&](int64_t count) {
    return std::ranges::any_of(ways,
                               [&](const StageWay& way) { return !way.model->allows(count); });
  });
  return options;
}

std::optional<PassTimeline> timeline_of(const PipelineChoice& choice) {
  const PipelineShape shape = shape_of(choice);
  if (!misfit(choice.schedule, shape).empty()) return std::nullopt;
  const DeviceOrders orders = named_orders(choice.schedule, shape);
  if (!first_fault(shape, orders).empty()) return std::nullopt;
  return run_on_clock(shape, orders);
}

}  // namespace

std::vector<double> clock_memory(const PipelineChoice& choice) {
  const std::optional<PassTimeline> timeline = timeline_of(choice);
  const std::vector<DeviceCosts> devices = device_costs(choice);
  std::vector<double> bytes;
  for (size_t s = 0; timeline && s < choice.stages.size(); ++s) {
    const size_t device = choice.device_of(s);
    bytes.push_back(devices[device].memory(timeline->devices[device].max_memory));
  }
  return bytes;
}

std::optional<PipelineChoice> on_clock(const ModelLine& line, PipelineChoice choice,
                                       PipelineKind schedule) {
  choice.schedule = schedule;
  const bool wants_chain = facts_of(schedule).splits_backward || choice.has_two_stages();
  if (wants_chain && !is_chain(line, choice)) return std::nullopt;
  const std::optional<double> seconds = clock_seconds(choice);
  if (!seconds) return std::nullopt;
  choice.seconds = *seconds;
  return choice;
}

std::optional<double> clock_seconds(const PipelineChoice& choice) {
  const std::optional<PassTimeline> timeline = timeline_of(choice);
  if (!timeline) return std::nullopt;
  const std::vector<DeviceCosts> devices = device_costs(choice);
  double end = 0;
  for (size_t d = 0; d < devices.size(); ++d)
    end = std::max(end, timeline->devices[d].last_end + devices[d].once);
  return end;
}

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

std::vector<PipelineChoice> StageSearch::best_of(const std::vector<int64_t>& counts, size_t most) {
  for (int64_t count : counts) costs_of(count);
  const std::vector<EqualStages> equals = equal_stages();
  const int64_t tries = 2 * std::ssize(equals);
  std::vector<std::vector<PipelineChoice>> found(tries * counts.size());
  on_all_cores(std::ssize(found), [&](int64_t i) {
    const int64_t count = counts[i / tries];
    const ChainOf chain = i % 2 == 0 ? ChainOf::kWholeBackward : ChainOf::kSplitBackward;
    const EqualStages& equal = equals[i % tries / 2];
    const RunCapacities capacities{runs_, withheld_};
    found[i] = shortest_chains(line_, capacities, *costs_.at(count), options_, count, chain, equal);
  });
  std::vector<PipelineChoice> chains, clocked;
  for (std::vector<PipelineChoice>& list : found)
    std::ranges::move(list, std::back_inserter(chains));
  sort_unique(chains);
  const StageSearchEffort& effort = options_.effort;
  if (chains.size() > effort.clocked * options_.max_answers)
    chains.resize(effort.clocked * options_.max_answers);
  for (const PipelineChoice& chain : chains)
    for (const PipelineKind schedule : options_.schedules)
      add_clocked(line_, chain, schedule, clocked);
  sort_unique(clocked);
  for (const PipelineChoice& start : few_of_like(clocked, effort.climbs)) climb(start, clocked);
  sort_unique(clocked);
  clocked = few_of_like(clocked, most);
  if (runs_.ranks() > kManyRanks && options_.ranks.empty()) place_data_outside(clocked);
  return clocked;
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
  for (StageChoice& stage : choice.stages) {
    const int kind = runs_.kind(stage.first, ways_[stage.way].mesh->size());
    stage.cost = costs.of(kind, stage.way, stage.first_unit, stage.end_unit);
    stage.transfer = costs.transfer(stage.way, stage.first_unit, stage.first);
    stage.capacity =
        RunCapacities{runs_, withheld_}.of(costs, stage.first, ways_[stage.way].mesh->size());
  }
  return choice;
}

std::vector<PipelineChoice> StageSearch::with_other_cuts(const PipelineChoice& choice) const {
  std::vector<PipelineChoice> others;
  const auto add = [&](size_t cut, int step, int next_step) {
    PipelineChoice other = choice;
    other.stages[cut - 1].end_unit = other.stages[cut].first_unit += step;
    if (next_step != 0) other.stages[cut].end_unit = other.stages[cut + 1].first_unit += next_step;
    if (std::ranges::all_of(other.stages, [&](const StageChoice& stage) {
          return stage.units() > 0 &&
                 stage.end_unit <= last_end(options_.boundaries, stage.first_unit, line_.units()) &&
                 stage.end_unit <= last_end(options_.ranks, stage.first_unit, stage.first,
                                            ways_[stage.way].mesh->size(), line_.units());
        }))
      others.push_back(std::move(other));
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
    if (schedule != choice.schedule) add_clocked(line_, choice, schedule, clocked);
  sort_unique(clocked);
  return clocked;
}

}  // namespace tessera
