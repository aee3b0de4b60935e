#include "lower/reshard_plans.h"

#include <algorithm>

#include "reshard/pulls.h"

namespace tessera {

const PricedReshard& ReshardPlans::plan(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to) {
  return known_.get(type, from, to, [&] {
    PricedReshard plan{plan_reshard(type, from, to, options_)};
    // The heaviest rank holds the largest parts; the lightest differs from it on every axis.
    int64_t most = 0;
    for (const Coordinate& coordinate : {to.mesh->heaviest(), to.mesh->lightest()})
      most = std::max(most,
                      received_elements(type.shape, plan.exchanges, to.mesh->rank_at(coordinate)));
    plan.sent_bytes = most * size_of(type.dtype);
    return plan;
  });
}

}  // namespace tessera
