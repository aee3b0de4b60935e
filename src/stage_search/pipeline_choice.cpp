#include "stage_search/pipeline_choice.h"

#include <algorithm>

namespace tessera {

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

}  // namespace tessera
