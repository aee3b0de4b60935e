#include "lower/reshard_plans.h"

#include <algorithm>

#include "reshard/pulls.h"

namespace tessera {

const PricedReshard& ReshardPlans::plan(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to) {
  return known_.get(type, from, to, [&] {
    PricedReshard plan{plan_reshard(type, from, to, options_)};
    // The rank at the origin holds the largest parts; the last rank differs from it on every axis.
    int64_t most = 0;
    for (Rank rank : {to.mesh->ranks().front(), to.mesh->ranks().back()})
      most = std::max(most, received_elements(type.shape, plan.exchanges, rank));
    plan.sent_bytes = most * size_of(type.dtype);
    return plan;
  });
}

}  // namespace tessera
