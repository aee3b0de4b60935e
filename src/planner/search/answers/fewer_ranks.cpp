#include "planner/search/answers/fewer_ranks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/pipeline/device_runs.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {}  // namespace

std::vector<Candidate> presets_on_fewer_ranks(const PlanRequest& request,
                                              const PlanConstraints& constraints,
                                              const PlanSearchResult&) {
  std::vector<Candidate> candidates;
  if (constraints.ranks > kSearchPolicy.many_ranks || constraints.may_use_fewer ||
      constraints.mesh || !constraints.degrees.empty())
    return candidates;
  int tried = 0;
  for (int ranks = constraints.ranks / 2; ranks > 1 && tried < kSearchPolicy.fewer_divisors;
       --ranks) {
    if (constraints.ranks % ranks != 0) continue;
    PlanConstraints fewer = constraints;
    fewer.ranks = ranks;
    std::ranges::move(preset_grid(request, fewer, 0).candidates, std::back_inserter(candidates));
    ++tried;
  }
  return candidates;
}

}  // namespace tessera
