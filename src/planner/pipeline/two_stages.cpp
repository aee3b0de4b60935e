// Pipelines with two stages on each device, in turn or in a V.
#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "planner/pipeline/internal/balanced_devices.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/pipeline/stage_program.h"
#include "planner/pipeline/stage_search.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {
constexpr PipelineKind kSchedules[] = {PipelineKind::kInterleaved, PipelineKind::kZeroBubbleV,
                                       PipelineKind::kVHalf};

void set_cuts(PipelineChoice& choice, const std::vector<int>& ends) {
  for (size_t s = 0; s < ends.size(); ++s) {
    choice.stages[s].first_unit = s == 0 ? 0 : ends[s - 1];
    choice.stages[s].end_unit = ends[s];
  }
}

}  // namespace

bool StageSearch::may_have_two_stages(const PipelineChoice& choice) const {
  return choice.micro_batches > 1 && choice.stages.size() > 1 && !choice.has_two_stages() &&
         !choice.is_dp_outermost && options_.boundaries.empty();
}

SplitStages StageSearch::split_stages(const PipelineChoice& split) {
  const SegmentCosts& costs = costs_of(split.micro_batches);
  SplitStages stages;
  for (const StageChoice& stage : split.stages) {
    const int kind = runs_.kind(stage.first, stage_shardings_[stage.stage_sharding].mesh->size());
    stages.before.emplace_back(1, 0.0);
    for (int end = 1; end <= sequence_.units(); ++end)
      stages.before.back().push_back(costs.price(kind, stage.stage_sharding, 0, end).micro_batch());
  }
  stages.last_end = [this, of_stages = split.stages](int stage, int unit) {
    const StageChoice& each = of_stages[stage];
    return last_end(options_.ranks, unit, each.first,
                    stage_shardings_[each.stage_sharding].mesh->size(), sequence_.units());
  };
  return stages;
}

std::vector<PipelineChoice> StageSearch::split_in_two(const PipelineChoice& choice,
                                                      PipelineKind schedule, bool is_rough) {
  const bool in_v = schedule != PipelineKind::kInterleaved;
  PipelineChoice split = choice;
  split.schedule = schedule;
  split.is_chain = true;
  std::vector<StageChoice> second = choice.stages;
  if (in_v) std::ranges::reverse(second);
  split.stages.insert(split.stages.end(), second.begin(), second.end());
  const SplitStages stages = split_stages(split);
  std::vector<std::vector<int>> cuts{shortest_stage(stages)};
  if (!is_rough)
    cuts.push_back(in_v ? shortest_device_in_v(stages) : shortest_stage_of_both_rounds(stages));
  std::vector<PipelineChoice> list;
  for (const std::vector<int>& ends : cuts) {
    if (ends.empty()) continue;
    set_cuts(split, ends);
    if (may_be(split) && is_chain(sequence_, split)) list.push_back(priced(split));
  }
  return list;
}

/// The fastest cuts of a pipeline with two stages on each device that a number of trials finds.
///   source  Lourenco, Martin and Stutzle, Iterated Local Search, Handbook of Metaheuristics, 2003
class StageSearch::CutDescent {
 public:
  CutDescent(StageSearch& search, const PipelineChoice& choice)
      : search_(search), clock_(choice), cuts_(static_cast<int>(choice.stages.size()) - 1) {}

  /// Follows faster cuts from these on, and then from cuts near the fastest ones.
  PipelineChoice from(const std::vector<PipelineChoice>& starts) {
    for (const PipelineChoice& start : starts) descend(start, kSearchPolicy.simulated_cuts / 4);
    while (left_ > 0) descend(kicked(*fastest_), kSearchPolicy.simulated_cuts / 8);
    fastest_->seconds = step_.seconds;
    return *fastest_;
  }
  /// Of few cuts near this one.
  PipelineSimulator::Step near(const PipelineChoice& start) {
    descend(start, kSearchPolicy.few_cuts);
    return step_;
  }

 private:
  /// Some neighbouring cuts are shifted by the same number of units: those of one stage move to
  /// another one.
  struct Shift {
    int first = 1, last = 1, units = 0;
  };

  /// nullopt where that makes no pipeline.
  std::optional<PipelineChoice> shifted(PipelineChoice choice, const Shift& shift) const {
    for (int cut = shift.first; cut <= shift.last; ++cut)
      choice.stages[cut - 1].end_unit = choice.stages[cut].first_unit += shift.units;
    if (!search_.may_be(choice) || !is_chain(search_.sequence_, choice)) return std::nullopt;
    return search_.priced(std::move(choice));
  }

  std::vector<Shift> all_shifts() const {
    std::vector<Shift> shifts;
    for (const int units : {-1, 1, -2, 2})
      for (int first = 1; first <= cuts_; ++first)
        for (int last = first; last <= cuts_; ++last) shifts.push_back({first, last, units});
    return shifts;
  }

  /// Goes on to the next shift that is faster, until none is.
  void descend(PipelineChoice choice, int trials) {
    PipelineSimulator::Step step = clock_.run(choice);
    const std::vector<Shift> shifts = all_shifts();
    trials = std::min(trials, left_);
    left_ -= trials;
    for (size_t tried = 0, next = 0; trials > 0 && tried < shifts.size(); ++tried) {
      std::optional<PipelineChoice> other = shifted(choice, shifts[next]);
      next = (next + 1) % shifts.size();
      if (!other) continue;
      --trials;
      const PipelineSimulator::Step shifted_step = clock_.run(*other);
      if (shifted_step >= step) continue;
      step = shifted_step;
      choice = *std::move(other);
      tried = 0;
    }
    left_ += trials;
    if (fastest_ && step >= step_) return;
    step_ = step;
    fastest_ = std::move(choice);
  }

  /// With some random shifts.
  PipelineChoice kicked(PipelineChoice choice) {
    --left_;
    for (int i = 0; i < kSearchPolicy.shifts_of_kick; ++i) {
      const int first = 1 + below(cuts_), last = first + below(cuts_ - first + 1);
      const int units = (1 + below(kSearchPolicy.units_of_shift)) * (below(2) == 0 ? 1 : -1);
      if (std::optional<PipelineChoice> other = shifted(choice, {first, last, units}))
        choice = *std::move(other);
    }
    return choice;
  }
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  StageSearch& search_;
  const PipelineSimulator clock_;
  const int cuts_;
  int left_ = kSearchPolicy.simulated_cuts;
  std::mt19937 random_;
  PipelineSimulator::Step step_;
  std::optional<PipelineChoice> fastest_;
};

std::optional<PipelineChoice> StageSearch::best_split(const PipelineChoice& choice,
                                                      PipelineKind schedule) {
  const std::vector<PipelineChoice> starts = split_in_two(choice, schedule, false);
  if (starts.empty()) return std::nullopt;
  return simulate_pipeline(sequence_, CutDescent(*this, starts.front()).from(starts), schedule);
}

std::vector<PipelineChoice> StageSearch::with_two_stages(const PipelineChoice& choice) {
  std::vector<PipelineChoice> list;
  if (!may_have_two_stages(choice)) return list;
  for (const PipelineKind schedule : kSchedules)
    if (std::optional<PipelineChoice> split = best_split(choice, schedule))
      list.push_back(*std::move(split));
  std::ranges::stable_sort(list, {}, &PipelineChoice::seconds);
  return list;
}

std::vector<PipelineChoice> StageSearch::chains_to_split() {
  std::vector<PipelineChoice> list = chains_;
  for (const int64_t count : options_.micro_batches)
    for (int stage_sharding = 0; stage_sharding < std::ssize(stage_shardings_); ++stage_sharding) {
      const int size = stage_shardings_[stage_sharding].mesh->size(), stages = runs_.ranks() / size;
      if (runs_.ranks() % size != 0 || stages < options_.min_stages ||
          stages > options_.max_stages || options_.stages.value_or(stages) != stages)
        continue;
      PipelineChoice equal;
      equal.micro_batches = count;
      bool may_be_here = true;
      for (int s = 0; s < stages && may_be_here; ++s) {
        equal.stages.push_back({.first = s * size, .stage_sharding = stage_sharding});
        const int kind = runs_.kind(s * size, size);
        may_be_here = kind != DeviceRuns::kNone &&
                      std::ranges::count(costs_of(count).stage_shardings(kind), stage_sharding) > 0;
      }
      const auto is_identical = [&](const PipelineChoice& known) {
        return known.has_stage_shardings_of(equal);
      };
      if (may_be_here && std::ranges::none_of(list, is_identical)) list.push_back(std::move(equal));
    }
  return list;
}

std::vector<PipelineChoice> StageSearch::best_with_two_stages(double limit) {
  struct Rough {
    const PipelineChoice* chain = nullptr;
    PipelineKind schedule;
    PipelineSimulator::Step step;
  };
  std::vector<Rough> all;
  std::map<std::tuple<size_t, int64_t, PipelineKind>, PipelineSimulator>
      clocks;  // the orders are equal
  const std::vector<PipelineChoice> chains = chains_to_split();
  for (const PipelineChoice& chain : chains)
    for (const PipelineKind schedule : kSchedules) {
      if (!may_have_two_stages(chain)) continue;
      const std::vector<PipelineChoice> split = split_in_two(chain, schedule, true);
      if (split.empty()) continue;
      const std::tuple key(chain.stages.size(), chain.micro_batches, schedule);
      const PipelineSimulator& clock = clocks.try_emplace(key, split.front()).first->second;
      const PipelineSimulator::Step step = clock.run(split.front());
      if (step.seconds <= kSearchPolicy.rough_margin * limit)
        all.push_back({&chain, schedule, step});
    }
  std::ranges::stable_sort(all, {}, &Rough::step);
  // With the first cuts many of them lack memory: after a few others it is known which can have it.
  if (all.size() > kSearchPolicy.descents) {
    all.resize(std::min(all.size(), kSearchPolicy.short_descents));
    for (Rough& each : all) {
      const std::vector<PipelineChoice> split = split_in_two(*each.chain, each.schedule, true);
      each.step = CutDescent(*this, split.front()).near(split.front());
    }
    std::ranges::stable_sort(all, {}, &Rough::step);
  }
  std::vector<PipelineChoice> list;
  for (size_t i = 0; i < std::min(all.size(), kSearchPolicy.descents); ++i)
    if (std::optional<PipelineChoice> split = best_split(*all[i].chain, all[i].schedule);
        split && split->seconds <= limit)
      list.push_back(*std::move(split));
  std::ranges::stable_sort(list, {}, &PipelineChoice::seconds);
  return list;
}

}  // namespace tessera
