#include "sharding/reshard/available_placements.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sharding/reshard/recv_regions.h"

namespace tessera {

bool is_reshardable(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  if (!to.partial.empty() && from.mesh != to.mesh) return false;
  if (!holds_all_of(shape, from, to)) return false;
  return std::all_of(to.partial.begin(), to.partial.end(), [&](const PartialAxis& p) {
    // A value that is whole on an axis becomes partial there without an exchange.
    return !from.uses(p.axis) ||
           std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end();
  });
}

size_t cheapest_source(ReshardPlans& plans, const TensorType& type, AvailablePlacements available,
                       const DistAttr& wanted) {
  size_t best = available.size();
  std::pair<Seconds, int64_t> smallest;
  for (size_t i = 0; i < available.size(); ++i) {
    if (*available[i] == wanted) return i;
    const PricedReshard& plan = plans.plan(type, *available[i], wanted);
    const std::pair needed(plan.time, plan.sent_bytes);
    if (best == available.size() || needed < smallest) {
      best = i;
      smallest = needed;
    }
  }
  return best;
}

std::optional<DistAttr> choose_intermediate(ReshardPlans& plans, const TensorType& type,
                                            AvailablePlacements available, const DistAttr& wanted,
                                            std::vector<DistAttr> others) {
  const auto is_equal_to = [](const DistAttr& need) {
    return [&need](const DistAttr* each) { return *each == need; };
  };
  std::erase_if(others, [&](const DistAttr& need) {
    return need == wanted || std::ranges::any_of(available, is_equal_to(need));
  });
  if (others.empty()) return std::nullopt;
  const auto time_between = [&](const DistAttr& from, const DistAttr& to) {
    return is_reshardable(type.shape, from, to) ? plans.plan(type, from, to).time
                                                : Seconds(std::numeric_limits<double>::infinity());
  };
  const auto time_with = [&](const DistAttr& first) {
    std::vector<const DistAttr*> made(available.begin(), available.end());
    Seconds sum{0};
    const auto make = [&](const DistAttr& need) {
      if (std::ranges::any_of(made, is_equal_to(need))) return;
      Seconds smallest(std::numeric_limits<double>::infinity());
      for (const DistAttr* from : made) smallest = std::min(smallest, time_between(*from, need));
      sum += smallest;
      made.push_back(&need);
    };
    make(first);
    make(wanted);
    for (const DistAttr& need : others) make(need);
    return sum;
  };
  constexpr double kLess = 0.99;  // what is as fast is made when it is needed
  std::optional<DistAttr> best;
  Seconds smallest(kLess * time_with(wanted).value());
  for (const DistAttr& need : others)
    if (const Seconds time = time_with(need); time < smallest) {
      smallest = time;
      best = need;
    }
  return best;
}

}  // namespace tessera
