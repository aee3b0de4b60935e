#include <algorithm>
#include <utility>

#include "stage_search/stage_program.h"
#include "stage_search/stage_search.h"

namespace tessera {
namespace {

/// Of the time of the longest stage.
constexpr int kBisections = 20;
/// Rounds in which cuts are moved.
constexpr int kRounds = 6;

constexpr std::pair<PipelineKind, bool> kSchedules[] = {{PipelineKind::kInterleaved, false},
                                                        {PipelineKind::kZeroBubbleV, true},
                                                        {PipelineKind::kVHalf, true}};

}  // namespace

std::vector<int> StageSearch::ends_within(const PipelineChoice& choice, double seconds) {
  const SegmentCosts& costs = costs_of(choice.micro_batches);
  const int units = line_.units();
  std::vector<int> ends;
  int unit = 0;
  for (size_t s = 0; s < choice.stages.size(); ++s) {
    const StageChoice& stage = choice.stages[s];
    const int size = ways_[stage.way].mesh->size();
    const int kind = runs_.kind(stage.first, size);
    const int behind = static_cast<int>(choice.stages.size() - s) - 1;  // stages
    const int last =
        std::min(units - behind, last_end(options_.ranks, unit, stage.first, size, units));
    int end = unit;
    while (end < last && costs.of(kind, stage.way, unit, end + 1).micro_batch() <= seconds) ++end;
    if (end == unit) return {};
    ends.push_back(unit = end);
  }
  return unit == units ? ends : std::vector<int>{};
}

std::optional<PipelineChoice> StageSearch::split_in_two(const PipelineChoice& choice, bool in_v) {
  PipelineChoice result = choice;
  std::vector<StageChoice> second = choice.stages;
  if (in_v) std::ranges::reverse(second);
  result.stages.insert(result.stages.end(), second.begin(), second.end());
  double least = 0, most = 0;  // a stage has at most all units of all
  for (const StageChoice& stage : choice.stages) {
    const int kind = runs_.kind(stage.first, ways_[stage.way].mesh->size());
    most += costs_of(choice.micro_batches).of(kind, stage.way, 0, line_.units()).micro_batch();
  }
  std::vector<int> ends = ends_within(result, most);
  if (ends.empty()) return std::nullopt;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (least + most) / 2;
    std::vector<int> found = ends_within(result, middle);
    (found.empty() ? least : most) = middle;
    if (!found.empty()) ends = std::move(found);
  }
  for (size_t s = 0; s < ends.size(); ++s) {
    result.stages[s].first_unit = s == 0 ? 0 : ends[s - 1];
    result.stages[s].end_unit = ends[s];
  }
  return priced(std::move(result));
}

PipelineChoice StageSearch::with_faster_cuts(PipelineChoice choice) {
  for (int round = 0; round < kRounds; ++round) {
    std::optional<PipelineChoice> fastest;
    for (PipelineChoice& other : with_other_cuts(choice)) {
      std::optional<PipelineChoice> moved =
          on_clock(line_, priced(std::move(other)), choice.schedule);
      if (moved && moved->seconds < (fastest ? fastest->seconds : choice.seconds))
        fastest = std::move(moved);
    }
    if (!fastest) break;
    choice = *std::move(fastest);
  }
  return choice;
}

std::vector<PipelineChoice> StageSearch::with_two_stages(const PipelineChoice& choice,
                                                         double margin) {
  std::vector<PipelineChoice> list;
  const bool has_one_each = !choice.has_two_stages() && !choice.has_data_outside;
  if (choice.micro_batches < 2 || choice.stages.size() < 2 || !has_one_each ||
      !options_.boundaries.empty())
    return list;
  for (const auto& [schedule, in_v] : kSchedules) {
    std::optional<PipelineChoice> split = split_in_two(choice, in_v);
    if (!split) continue;
    std::optional<PipelineChoice> clocked = on_clock(line_, *std::move(split), schedule);
    if (!clocked || clocked->seconds > margin * choice.seconds) continue;
    list.push_back(with_faster_cuts(*std::move(clocked)));
  }
  std::ranges::stable_sort(list, {}, &PipelineChoice::seconds);
  return list;
}

}  // namespace tessera
