#include "planner/placement/internal/cost_unit.h"

#include <algorithm>
#include <cmath>

#include "base/solver/solve.h"

namespace tessera {

solver::Cost CostUnit::cost_of(double seconds) const {
  if (!std::isfinite(seconds)) return solver::kForbidden;
  // The sum of costs is too large with one of them, so that the unit becomes a larger one.
  constexpr double kMaxUnits = 1e17;
  return std::llround(std::min(1e12 * seconds / picoseconds_, kMaxUnits));
}

Seconds CostUnit::seconds(solver::Wide cost) const {
  return Seconds(1e-12 * solver::to_double(cost) * picoseconds_);
}

bool CostUnit::enlarge_for(solver::Wide sum) {
  const double before = picoseconds_;
  for (; sum >= solver::kExactSum; sum /= 2) picoseconds_ *= 2;
  return picoseconds_ != before;
}

}  // namespace tessera
