#include "reshard/held_placements.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reshard/pulls.h"

namespace tessera {

bool may_become(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  if (!to.partial.empty() && from.mesh != to.mesh) return false;
  if (!holds_all_of(shape, from, to)) return false;
  return std::all_of(to.partial.begin(), to.partial.end(), [&](const PartialAxis& p) {
    // A value that is whole on an axis becomes partial there without an exchange.
    return !from.uses(p.axis) ||
           std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end();
  });
}

size_t nearest(ReshardPlans& plans, const TensorType& type, HeldPlacements held,
               const DistAttr& wanted) {
  size_t best = held.size();
  std::pair<Seconds, int64_t> least;
  for (size_t i = 0; i < held.size(); ++i) {
    if (*held[i] == wanted) return i;
    const PricedReshard& plan = plans.plan(type, *held[i], wanted);
    const std::pair needed(plan.time, plan.sent_bytes);
    if (best == held.size() || needed < least) {
      best = i;
      least = needed;
    }
  }
  return best;
}

std::optional<DistAttr> better_first(ReshardPlans& plans, const TensorType& type,
                                     HeldPlacements held, const DistAttr& wanted,
                                     std::vector<DistAttr> others) {
  const auto is_equal_to = [](const DistAttr& need) {
    return [&need](const DistAttr* each) { return *each == need; };
  };
  std::erase_if(others, [&](const DistAttr& need) {
    return need == wanted || std::ranges::any_of(held, is_equal_to(need));
  });
  if (others.empty()) return std::nullopt;
  const auto time_between = [&](const DistAttr& from, const DistAttr& to) {
    return may_become(type.shape, from, to) ? plans.plan(type, from, to).time
                                            : Seconds(std::numeric_limits<double>::infinity());
  };
  const auto time_with = [&](const DistAttr& first) {
    std::vector<const DistAttr*> made(held.begin(), held.end());
    Seconds sum{0};
    const auto make = [&](const DistAttr& need) {
      if (std::ranges::any_of(made, is_equal_to(need))) return;
      Seconds least(std::numeric_limits<double>::infinity());
      for (const DistAttr* from : made) least = std::min(least, time_between(*from, need));
      sum += least;
      made.push_back(&need);
    };
    make(first);
    make(wanted);
    for (const DistAttr& need : others) make(need);
    return sum;
  };
  constexpr double kLess = 0.99;  // what is as fast is made when it is needed
  std::optional<DistAttr> best;
  Seconds least(kLess * time_with(wanted).value());
  for (const DistAttr& need : others)
    if (const Seconds time = time_with(need); time < least) {
      least = time;
      best = need;
    }
  return best;
}

}  // namespace tessera
