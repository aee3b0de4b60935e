// Runs many random cases, one after the other: the implementation of `tessera fuzz`.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/units.h"
#include "tools/fuzz/fuzz_case.h"
#include "tools/fuzz/internal/planned_case.h"

namespace tessera::fuzz {

/// Counts of the cases that have run.
struct FuzzProgress {
  int64_t cases = 0;
  int64_t exact_cases = 0;
  int64_t micro_batched_cases = 0;  // cases that ran in several micro-batches
  int64_t refused_cases = 0;        // cases that could not run in several and ran in one
  int64_t scheduled_cases = 0;      // cases that ran under another schedule than 1f1b
  int64_t chunked_cases = 0;        // cases that had a decomposed matmul
  int64_t combined_cases = 0;       // cases that had combined exchanges
  int64_t failures = 0;
  Seconds time{0};
};

/// A case that failed.
struct FuzzFinding {
  uint64_t seed = 0;
  CaseFailure failure;  // the failure of the whole case
  FuzzCase smallest;    // fails in the same way
  CaseFailure smallest_failure;
  bool is_planned = false;  // under the plan that the planner finds
};
/// The failure, the command that repeats it, and the smallest case as text that parse_case reads.
std::string to_text(const FuzzFinding& finding);

struct FuzzOptions {
  int64_t cases = 2000;      // 0: as many as run in `minutes`
  uint64_t seed = 1;         // of the first case; each further case has the next number
  double minutes = 0;        // 0: until all cases have run
  int64_t max_failures = 5;  // the run stops after this number
  std::function<void(const FuzzProgress&)> on_progress = {};  // after each case
  std::function<void(const FuzzFinding&)> on_failure = {};
  CaseFaults faults = {};
  /// Run under the plans that the planner finds (tools/fuzz/internal/planned_case.h).
  bool plans = false;
};

struct FuzzReport {
  PlannedCases planned;  // with FuzzOptions::plans
  FuzzProgress total;
  std::map<std::string, int64_t> operators;  // number of ops of each kind that ran
};
///   throws  UserError (2) when neither a number of cases nor of minutes is given
FuzzReport run_cases(const FuzzOptions& options);

}  // namespace tessera::fuzz
