// The plan for a graph on a cluster: candidates of several sources are compiled and simulated, and
// the fastest one that fits is the best plan. So the best plan is never worse than any candidate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/internal/plan_search_result.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// Makes further candidates, and may start from those of `known`, its best one first.
struct CandidateSource {
  std::string name, explanation;  // of its stage
  std::function<std::vector<Candidate>(const PlanRequest& request,
                                       const PlanConstraints& constraints,
                                       const PlanSearchResult& known)>
      find;
};

/// The search for placements (planner/search/sources/placement_source.h), then again with less
/// memory where it did not fit, at most three times.
std::vector<CandidateSource> placement_searches();

/// The placement searches, then the search for pipelines (planner/search/sources/stage_source.h).
std::vector<CandidateSource> all_searches();

struct PlanSearchOptions {
  PlanConstraints constraints;
  std::vector<Candidate> compared = {};  // plans that the user gives
  /// Asked in order when the incumbents are evaluated: a search.
  std::vector<CandidateSource> sources = all_searches();
  /// Makes the sources for a smaller number of ranks, where fewer are allowed; nothing: these have
  /// presets alone.
  std::function<std::vector<CandidateSource>()> sources_of_fewer = {};
  int64_t max_presets = 32;
  /// All the presets that are tried have n ops, unless these are less than
  /// SearchPolicy::min_presets.
  int64_t max_preset_ops = 200'000;
  bool tries_presets = true;
  /// Where nothing fits, and the devices are cores: tries the state of the optimizer in a file.
  bool offloads = true;
  /// Leaves out candidates whose kernels alone take longer than the step of one that fits.
  bool excludes = true;
  /// Changes keys of the fastest candidates (planner/search/internal/keys/key_search.h). Where
  /// nothing fits, they are changed in any case.
  bool searches_keys = true;
  EvaluationOptions evaluation = {};
  /// Other placements of the best candidate that are tried at most.
  int64_t local_search_trials = 0;
};

/// Runs the stages of the search in their order, each where its condition holds; find_plan.cpp has
/// them as a table, and the result reports them. Of candidates that follow each other,
/// SearchPolicy::round are evaluated at once; those whose bound is above the best step before them
/// are excluded.
///
///   requires  the ranks are at most the devices of the cluster, unless these are cores
///   ensures   without `stop` the same inputs give the same result; `excludes` does not change the
///             best one; no source is asked after `stop` has returned true
///   throws    UserError as evaluate, and for marks that contradict each other
PlanSearchResult find_plan(const PlanRequest& request, const PlanSearchOptions& options);

}  // namespace tessera
