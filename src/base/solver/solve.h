// The entry point: takes a problem and returns the best assignment found, a certified bound and the
// proof.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/solver/problem.h"
#include "base/units.h"

namespace tessera::solver {

struct Improvement {
  Seconds at{0};
  std::optional<Wide> cost;     // absent while nothing feasible is known
  std::optional<Wide> bound;    // absent while nothing is known
  std::vector<Moment> binding;  // moments whose memory has a price
};

struct SolveOptions {
  Seconds time_limit{60};
  /// A limit of work instead of time: entries of tables, in millions. The answer then depends only
  /// on the problem, the seed and the work, for any number of threads and any machine.
  std::optional<int64_t> work;
  int threads = 2;
  uint64_t seed = 1;
  std::optional<Assignment> start;  // a known assignment, feasible or not
  double target_gap = 0;            // stop when (cost - bound) / cost is no larger
  /// Called now and then, by one thread at a time. The search ends with its results so far when it
  /// returns true.
  std::function<bool()> cancel;
  std::function<void(const Improvement&)> on_improvement;  // called on the calling thread
};

enum class Proof {
  kOptimal,     // no assignment costs less
  kInfeasible,  // there is no assignment within the limits
  kNone,        // the best one found, or nothing
};

struct Answer {
  Proof proof = Proof::kNone;
  std::optional<Assignment> assignment;  // always feasible; absent when none was found
  std::optional<Wide> cost;              // its cost, from the evaluator
  std::optional<Wide> bound;             // no assignment costs less; certified in exact arithmetic
  Seconds to_best{0};
  std::vector<Improvement> trace;
  std::string proved;  // as text
};

/// Below it, sums of costs are exact in the doubles of the search.
inline constexpr Wide kExactSum = Wide{1} << 53;
/// The sum of the largest finite costs of all nodes and edges.
Wide sum_of_largest(const Problem& problem);

///   throws   UserError (65) unless sum_of_largest(problem) < kExactSum
///   threads  starts up to options.threads; several threads may call it at the same time
Answer solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace tessera::solver
