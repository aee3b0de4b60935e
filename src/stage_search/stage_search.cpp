#include "stage_search/stage_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/on_all_cores.h"
#include "schedule/clock.h"

namespace tessera {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Answers of one micro-batch, beside the others: the clock does not know how well weight gradients
/// overlap there.
constexpr size_t kOfOneMicroBatch = 2;
/// Stages of which two cuts are moved in all combinations.
constexpr size_t kFewStages = 4;

double memory_of(const UnitCost& cost, double in_flight) {
  return cost.variables + in_flight * cost.kept + cost.passing;
}

/// A stage of some units on a run of some kind.
struct Offer {
  int way = -1;
  UnitCost cost;
  double chain = kNever;    // seconds that it adds to those of one micro-batch
  double busiest = kNever;  // seconds of a step beside those of the first micro-batch
};

/// Keeps of several ways those that no other one replaces, in ascending order of the chain.
std::vector<Offer> front_of(std::vector<Offer> offers) {
  std::ranges::stable_sort(offers, {}, &Offer::chain);
  std::vector<Offer> front;
  for (Offer& offer : offers) {
    const bool is_needed = std::ranges::all_of(front, [&](const Offer& faster) {
      return faster.busiest > offer.busiest || faster.cost.variables > offer.cost.variables ||
             faster.cost.kept > offer.cost.kept;
    });
    if (is_needed && offer.busiest < kNever) front.push_back(std::move(offer));
  }
  return front;
}

/// What a stage adds to the time of one micro-batch: under 1f1b all, under schedules that split the
/// backward the weight gradients fill bubbles.
enum class ChainOf { kWholeBackward, kSplitBackward };

double chain_seconds(const UnitCost& cost, ChainOf chain) {
  return chain == ChainOf::kWholeBackward ? cost.micro_batch() : cost.forward + cost.input_gradient;
}

/// Where a stage that begins at a unit ends at the latest: it has no boundary inside.
int last_end(const std::vector<int>& boundaries, int unit, int units) {
  const auto next = std::ranges::upper_bound(boundaries, unit);
  return next == boundaries.end() ? units : *next;
}

/// The bytes that a stage may have.
struct RunCapacities {
  const DeviceRuns& runs;
  const std::vector<double>& withheld;  // by rank; empty: none

  double of(const SegmentCosts& costs, Rank first, int size) const {
    const double all = costs.capacity(runs.kind(first, size));
    if (withheld.empty()) return all;
    const auto begin = withheld.begin() + first;
    return all - *std::max_element(begin, begin + size);
  }
};

/// The stages of least time for one number of micro-batches.
class StageProgram {
 public:
  StageProgram(const ModelLine& line, const RunCapacities& capacities, const SegmentCosts& costs,
               const StageSearchOptions& options, int64_t micro_batches, ChainOf chain,
               const EqualStages& equal)
      : costs_(costs),
        runs_(capacities.runs),
        capacities_(capacities),
        equal_(equal),
        micro_batches_(micro_batches),
        chain_(chain),
        units_(line.units()),
        effort_(options.effort),
        ranks_(runs_.ranks()),
        fewest_(equal.stages.value_or(options.stages.value_or(options.min_stages))),
        most_(std::min(
            {equal.stages.value_or(options.stages.value_or(options.max_stages)), ranks_, units_})),
        places_(ranks_ + 1, -1) {
    for (int unit = 0; unit < units_; ++unit)
      last_end_.push_back(last_end(options.boundaries, unit, units_));
    for (int kind = 0; kind < runs_.kinds(); ++kind) add_offers(kind);
    for (Rank rank = 0; rank < ranks_; rank += equal.stages ? ranks_ / *equal.stages : 1)
      if (!runs_.sizes_at(rank).empty()) add_place(rank);
    add_place(ranks_);
    entries_.resize((most_ + 1) * (units_ + 1) * firsts_.size());
  }

  std::vector<PipelineChoice> answers() {
    if (most_ < fewest_ || !solve(kNever)) return {};
    double least = 0, most = busiest();
    for (int i = 0; i < effort_.bisections; ++i) {
      const double middle = (least + most) / 2;
      (solve(middle) ? most : least) = middle;
    }
    std::vector<PipelineChoice> found;
    for (const double slack : effort_.slacks) {
      solve(slack * most);
      for (int stages = fewest_; stages <= most_; ++stages)
        if (at(stages, 0, 0).seconds < kNever) found.push_back(choice(stages));
    }
    return found;
  }

 private:
  /// The shortest chain of so many stages from a unit and a rank to the end.
  struct Entry {
    double seconds = kNever;
    int end_unit = 0, size = 0;
    const Offer* offer = nullptr;
  };

  Entry& at(int stages, int unit, Rank rank) {
    return entries_[(stages * (units_ + 1) + unit) * firsts_.size() + places_[rank]];
  }
  void add_place(Rank rank) {
    places_[rank] = static_cast<int>(firsts_.size());
    firsts_.push_back(rank);
  }
  const std::vector<Offer>& offers(int kind, int first, int end) const {
    return offers_[(kind * (units_ + 1) + first) * (units_ + 1) + end];
  }

  void add_offers(int kind) {
    offers_.resize((kind + 1) * (units_ + 1) * (units_ + 1));
    for (int first = 0; first < units_; ++first)
      for (int end = first + 1; end <= units_; ++end) {
        std::vector<Offer> all;
        for (int way : costs_.ways_of(kind)) {
          if (equal_.way.value_or(way) != way) continue;
          const UnitCost cost = costs_.of(kind, way, first, end);
          all.push_back({way, cost, chain_seconds(cost, chain_),
                         static_cast<double>(micro_batches_ - 1) * cost.micro_batch() + cost.once});
        }
        offers_[(kind * (units_ + 1) + first) * (units_ + 1) + end] = front_of(std::move(all));
      }
  }

  /// The one of the shortest chain within the limit that fits; nullptr when there is none.
  const Offer* best_offer(const std::vector<Offer>& offers, double capacity, int stages,
                          double limit) const {
    const auto in_flight = static_cast<double>(std::min<int64_t>(micro_batches_, stages));
    for (const Offer& offer : offers) {
      if (offer.busiest > limit) continue;
      if (memory_of(offer.cost, in_flight) <= capacity) return &offer;
    }
    return nullptr;
  }

  /// False when stages of more units from `first` on take too much time or too many bytes, too:
  /// what front_of() leaves out needs as much of these.
  bool may_have_more(const std::vector<Offer>& offers, double capacity, int stages,
                     double limit) const {
    const auto in_flight = static_cast<double>(std::min<int64_t>(micro_batches_, stages));
    return std::ranges::any_of(offers, [&](const Offer& offer) {
      return offer.busiest <= limit &&
             offer.cost.variables + in_flight * offer.cost.kept <= capacity;
    });
  }

  /// Finds all entries. Returns whether there is a pipeline of all units and ranks.
  bool solve(double limit) {
    std::ranges::fill(entries_, Entry{});
    at(0, units_, ranks_).seconds = 0;
    bool is_possible = false;
    for (int stages = 1; stages <= most_; ++stages) {
      for (int unit = units_ - stages; unit >= 0; --unit)
        for (auto first = firsts_.rbegin() + 1; first != firsts_.rend(); ++first)
          find_entry(stages, unit, *first, limit);
      is_possible |= stages >= fewest_ && at(stages, 0, 0).seconds < kNever;
    }
    return is_possible;
  }

  void find_entry(int stages, int unit, Rank rank, double limit) {
    Entry best;
    for (const int size : runs_.sizes_at(rank)) {
      if (places_[rank + size] < 0 || equal_.stages.value_or(1) * size > ranks_) continue;
      const int kind = runs_.kind(rank, size);
      const double capacity = capacities_.of(costs_, rank, size);
      const int last = std::min(units_ - stages + 1, last_end_[unit]);
      for (int end = stages == 1 ? units_ : unit + 1; end <= last; ++end) {
        const double rest = at(stages - 1, end, rank + size).seconds;
        if (rest == kNever) continue;
        const std::vector<Offer>& ways = offers(kind, unit, end);
        const Offer* offer = best_offer(ways, capacity, stages, limit);
        if (!offer && !may_have_more(ways, capacity, stages, limit)) break;
        if (!offer) continue;
        const double seconds = rest + offer->chain + 2 * costs_.transfer(offer->way, unit, rank);
        if (seconds < best.seconds) best = {seconds, end, size, offer};
      }
    }
    at(stages, unit, rank) = best;
  }

  /// Of the pipelines that solve() found last, the time of the busiest stage of one of them.
  double busiest() {
    double least = kNever;
    for (int stages = fewest_; stages <= most_; ++stages) {
      double most = 0;
      if (at(stages, 0, 0).seconds == kNever) continue;
      visit(stages,
            [&](int, Rank, const Entry& entry) { most = std::max(most, entry.offer->busiest); });
      least = std::min(least, most);
    }
    return least;
  }

  template <class Visit>
  void visit(int stages, const Visit& visit_stage) {
    int unit = 0;
    for (Rank rank = 0; stages > 0; --stages) {
      const Entry& entry = at(stages, unit, rank);
      visit_stage(unit, rank, entry);
      unit = entry.end_unit;
      rank += entry.size;
    }
  }

  PipelineChoice choice(int stages) {
    PipelineChoice choice;
    choice.micro_batches = micro_batches_;
    double most = 0;
    visit(stages, [&](int unit, Rank rank, const Entry& entry) {
      const int way = entry.offer->way;
      choice.stages.push_back({unit, entry.end_unit, rank, way, entry.offer->cost,
                               costs_.transfer(way, unit, rank),
                               capacities_.of(costs_, rank, entry.size)});
      most = std::max(most, entry.offer->busiest);
    });
    choice.seconds = at(stages, 0, 0).seconds + most;
    return choice;
  }

  const SegmentCosts& costs_;
  const DeviceRuns& runs_;
  const RunCapacities capacities_;
  const EqualStages equal_;
  const int64_t micro_batches_;
  const ChainOf chain_;
  const int units_;
  const StageSearchEffort& effort_;
  const int ranks_;
  const int fewest_, most_;                 // stages
  std::vector<int> last_end_;               // by unit, of a stage that begins there
  std::vector<int> places_;                 // by rank: in firsts_, -1 when no run begins there
  std::vector<Rank> firsts_;                // where runs begin, and the end
  std::vector<std::vector<Offer>> offers_;  // by kind, first and end
  std::vector<Entry> entries_;
};

PipelineShape shape_of(const PipelineChoice& choice) {
  const int stages = static_cast<int>(choice.stages.size());
  PipelineShape shape =
      chain_of(stages, 1, StagePlacement::kRoundRobin, static_cast<int>(choice.micro_batches));
  for (int s = 0; s < stages; ++s) {
    const StageChoice& stage = choice.stages[s];
    shape.stages[s].costs = {stage.cost.forward, stage.cost.input_gradient,
                             stage.cost.weight_gradient, stage.cost.kept, 0};
    shape.transfer = std::max(shape.transfer, stage.transfer);
    shape.memory_limits.push_back(stage.capacity - memory_of(stage.cost, 0));
  }
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
  choice.schedule = schedule;
  if (facts_of(schedule).splits_backward && !is_chain(line, choice)) return;
  const std::optional<double> seconds = clock_seconds(choice);
  if (!seconds) return;
  choice.seconds = *seconds;
  list.push_back(std::move(choice));
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

}  // namespace

bool PipelineChoice::has_ways_of(const PipelineChoice& other) const {
  return micro_batches == other.micro_batches &&
         std::ranges::equal(stages, other.stages, [](const StageChoice& a, const StageChoice& b) {
           return a.first == b.first && a.way == b.way;
         });
}

bool PipelineChoice::has_stages_of(const PipelineChoice& other) const {
  return has_data_outside == other.has_data_outside &&
         std::ranges::equal(stages, other.stages, [](const StageChoice& a, const StageChoice& b) {
           return a.first_unit == b.first_unit && a.end_unit == b.end_unit && a.first == b.first &&
                  a.way == b.way;
         });
}

namespace {

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
  std::vector<double> bytes;
  for (size_t s = 0; timeline && s < choice.stages.size(); ++s)
    bytes.push_back(memory_of(choice.stages[s].cost, 0) + timeline->devices[s].max_memory);
  return bytes;
}

std::optional<double> clock_seconds(const PipelineChoice& choice) {
  const std::optional<PassTimeline> timeline = timeline_of(choice);
  if (!timeline) return std::nullopt;
  double end = 0;
  for (size_t s = 0; s < choice.stages.size(); ++s)
    end = std::max(end, timeline->devices[s].last_end + choice.stages[s].cost.once);
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
    found[i] =
        StageProgram(line_, capacities, *costs_.at(count), options_, count, chain, equal).answers();
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
  if (runs_.ranks() > kManyRanks) place_data_outside(clocked);
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
                 stage.end_unit <= last_end(options_.boundaries, stage.first_unit, line_.units());
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
