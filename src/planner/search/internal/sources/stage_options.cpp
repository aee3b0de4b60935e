#include "planner/search/internal/sources/stage_options.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "compiler/plan/preset.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

/// How often 2 divides a number.
int twos(int64_t number) {
  return std::countr_zero(static_cast<uint64_t>(number));
}

/// The divisors of the batch that are tried as numbers of micro-batches, ascending.
std::vector<int64_t> micro_batch_counts(int64_t rows, int ranks) {
  std::vector<int64_t> counts;
  for (int64_t count = 2; count <= std::min(rows, kMaxMicroBatches); ++count)
    if (rows % count == 0) counts.push_back(count);
  if (ranks <= kSearchPolicy.many_ranks || rows <= kSearchPolicy.all_divisors_rows) return counts;
  // From each power of two to the next one that whose micro-batches dp divides best.
  counts.clear();
  for (int64_t smallest = kSearchPolicy.micro_batches_of_many; smallest <= rows; smallest *= 2) {
    int64_t best = 0;
    for (int64_t count = smallest; count < 2 * smallest; ++count)
      if (rows % count == 0 && (best == 0 || twos(rows / count) >= twos(rows / best))) best = count;
    if (best > 0) counts.push_back(best);
  }
  return counts;
}

}  // namespace

StageSearchOptions stage_options(const PlanRequest& request, const PlanConstraints& constraints) {
  StageSearchOptions options;
  const Plan decisions = decisions_of(constraints);
  const bool has_fixed_count = fixes_decision(constraints, "micro_batches");
  for (const int64_t count : micro_batch_counts(batch_rows(request.graph), constraints.ranks))
    if (!has_fixed_count || count == decisions.micro_batches)
      options.micro_batches.push_back(count);
  if (constraints.ranks > kSearchPolicy.many_ranks) {
    if (const int64_t count = decisions.micro_batches;
        has_fixed_count && count > 1 && batch_rows(request.graph) % count == 0)
      options.micro_batches = {count};
    options.min_stages = 1;
    options.max_results = kSearchPolicy.pipelines_of_many;
    options.effort = StageSearchEffort::little();
  }
  // The divisions are made for the first number; of one there are none by micro-batches.
  if (!options.micro_batches.empty() && !has_fixed_count &&
      constraints.ranks <= kSearchPolicy.many_ranks && !fixes_decision(constraints, "schedule"))
    options.micro_batches.push_back(1);
  for (const PipelineKind schedule :
       {PipelineKind::kOneForwardOneBackward, PipelineKind::kEagerOneForwardOneBackward,
        PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleH2})
    if (!fixes_decision(constraints, "schedule") || schedule == decisions.schedule)
      options.schedules.push_back(schedule);
  if (const auto fixed = constraints.degrees.find(kPipelineKey); fixed != constraints.degrees.end())
    options.stages = static_cast<int>(fixed->second);
  return options;
}

}  // namespace tessera
