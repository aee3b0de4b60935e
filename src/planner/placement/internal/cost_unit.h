// The unit of the whole numbers that stand for times in a problem of the solver.
#pragma once

#include "base/solver/problem.h"
#include "base/units.h"

namespace tessera {

/// A picosecond, or the product of a picosecond and a power of 2.
class CostUnit {
 public:
  /// Rounded; kForbidden for what is not finite. Times of more than 1e17 units cost 1e17.
  solver::Cost cost_of(double seconds) const;
  /// What a sum of costs, or a bound of it, stands for.
  Seconds seconds(solver::Wide cost) const;

  /// Enlarges the unit where the solver does not add costs of this sum exactly.
  ///   sum      of the largest costs of a problem in this unit (base/solver/solve.h)
  ///   returns  is the unit another one, so that costs must be made again?
  bool enlarge_for(solver::Wide sum);

 private:
  double picoseconds_ = 1;
};

}  // namespace tessera
