#include "sharding/reshard/reshard_plans.h"

#include <algorithm>

#include "sharding/reshard/recv_regions.h"

namespace tessera {

std::vector<Rank> examined_receivers(const Mesh& mesh) {
  const std::vector<Rank>& ranks = mesh.ranks();
  if (!mesh.is_weighted()) return {ranks.front(), ranks.back()};
  constexpr size_t kExamined = 64;
  const size_t stride = (ranks.size() + kExamined - 1) / kExamined;
  std::vector<Rank> examined;
  for (size_t i = 0; i < ranks.size(); i += stride) examined.push_back(ranks[i]);
  return examined;
}

const PricedReshard& ReshardPlans::plan(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to) {
  return known_.get(type, from, to, [&] {
    PricedReshard plan{plan_reshard(type, from, to, options_)};
    for (const Exchange& exchange : plan.exchanges)
      plan.time += price(type, exchange, options_.links).estimate;
    int64_t largest = 0;
    for (Rank rank : examined_receivers(*to.mesh))
      largest = std::max(largest, received_elements(type.shape, plan.exchanges, rank));
    plan.sent_bytes = largest * size_of(type.dtype);
    return plan;
  });
}

}  // namespace tessera
