#include "planner/pipeline/pipeline_choice.h"

#include <algorithm>

namespace tessera {

size_t PipelineChoice::devices() const {
  size_t count = 1;
  while (count < stages.size() &&
         std::none_of(
             stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(count),
             [&](const StageChoice& each) { return each.first == stages[count].first; }))
    ++count;
  return count;
}

bool PipelineChoice::is_v() const {
  const size_t count = devices();
  return count > 1 && count < stages.size() && stages[count].first == stages[count - 1].first;
}

size_t PipelineChoice::device_of(size_t stage) const {
  const size_t count = devices();
  return stage < count ? stage : is_v() ? 2 * count - 1 - stage : stage - count;
}

bool PipelineChoice::has_stage_shardings_of(const PipelineChoice& other) const {
  return micro_batches == other.micro_batches &&
         std::ranges::equal(stages, other.stages, [](const StageChoice& a, const StageChoice& b) {
           return a.first == b.first && a.stage_sharding == b.stage_sharding;
         });
}

bool PipelineChoice::has_stages_of(const PipelineChoice& other) const {
  return is_dp_outermost == other.is_dp_outermost &&
         std::ranges::equal(stages, other.stages, [](const StageChoice& a, const StageChoice& b) {
           return a.first_unit == b.first_unit && a.end_unit == b.end_unit && a.first == b.first &&
                  a.stage_sharding == b.stage_sharding;
         });
}

}  // namespace tessera
