// One entry: a problem in, the best assignment found out, with a bound that is certain and what was
// proved.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "solver/problem.h"

namespace tessera::solver {

struct Improvement {
  Seconds at{0};
  std::optional<Wide> cost;     // absent while nothing feasible is known
  std::optional<Wide> bound;    // absent while nothing is known
  std::vector<Moment> binding;  // moments whose memory has a price
};

struct SolveOptions {
  Seconds time_limit{60};
  /// Work instead of time: entries of tables, in millions. The answer then depends on the problem,
  /// the seed and the work only, on any number of threads and any machine.
  std::optional<int64_t> work;
  int threads = 2;
  uint64_t seed = 1;
  std::optional<Assignment> start;  // a known assignment, feasible or not
  double target_gap = 0;            // stop when (cost - bound) / cost is no larger
  std::function<bool()> cancel;     // asked now and then, by one thread at a time: true ends the
                                    // search with what is known
  std::function<void(const Improvement&)> on_improvement;  // on the calling thread
};

enum class Proof {
  kOptimal,     // no assignment costs less
  kInfeasible,  // there is no assignment within the limits
  kNone,        // the best that was found, or nothing
};

struct Answer {
  Proof proof = Proof::kNone;
  std::optional<Assignment> assignment;  // always feasible; absent where none was found
  std::optional<Wide> cost;              // its cost, from the evaluator
  std::optional<Wide> bound;             // no assignment costs less: certified in exact arithmetic
  Seconds to_best{0};
  std::vector<Improvement> trace;
  std::string proved;  // in words
};

/// throws   UserError (bad data, 65) when finite costs are too large for sums of 2^53
/// threads  starts up to options.threads; calls of several threads do not disturb each other
Answer solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace tessera::solver
