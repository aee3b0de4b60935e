// Candidates from the search for pipelines (planner/pipeline/stage_search.h).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "planner/search/find_plan.h"
#include "planner/search/internal/sources/memory_strategies.h"

namespace tessera {

/// Searches pipelines on all ranks of a request: non-uniform stages, on different numbers of
/// ranks, each divided by degrees of its own as presets divide (planner/presets/presets.h), with
/// any number of micro-batches up to 64 that divides the batch. Those are candidates whose
/// estimated step is at most 4% above the best one that is known, and 10% where they compute
/// results again, since a limit of what they keep will make them faster
/// (savings/recompute_limits.h).
///
/// A further call searches again where a pipeline of this source does not fit but would be the best
/// candidate: with what its estimate lacked taken from the memory of each of its ranks; three times
/// at most. Otherwise it makes the neighbours of the best candidate that is known, where that is a
/// pipeline of this source: a moved cut, another way of a stage, other micro-batches or another
/// schedule; the three of least estimated time, and twice at most. Stages that a schedule does not
/// take, since they are no chain, are tried again under 1f1b.
///
/// Where the steps of candidates are long (is_long() in candidates/long_steps.h), of pipelines that
/// differ in cuts and schedules alone one is a candidate, and two neighbours follow, and two more
/// when one of them is the best candidate.
///
/// Finally pipelines with two stages on the ranks of each stage are tried, in turn and in a V,
/// unless a schedule or boundaries are fixed: of the fastest one that has several micro-batches,
/// and the fastest ones of all stage shardings that were priced. Where one of them does not fit
/// they are made again, with what its estimate lacked taken from the memory. Where one is the best
/// candidate then, its neighbours follow, twice at most.
///
/// Constraints: `pp` is the number of stages; of the other fixed degrees every stage has the same;
/// fixed micro-batches and a fixed schedule hold. Where marks are fixed it makes nothing.
///
/// Pipelines whose states dp divides (zero=1) are searched, too; and where memory binds, be it only
/// for two stages on a device, those that also compute results again in the backward
/// (compiler/rewrite/recompute.h), selective and full, unless `recompute` is fixed. Of more than
/// SearchPolicy::many_ranks ranks one pipeline is made at a time, until one fits.
///
/// The plans have the shardings of the training step only.
///   threads  one caller at a time
class StageSource {
 public:
  StageSource();
  ~StageSource();

  ///   requires  the request outlives the last call
  std::vector<Candidate> operator()(const PlanRequest& request, const PlanConstraints& constraints,
                                    const PlanSearchResult& known);

 private:
  /// Of more than SearchPolicy::many_ranks ranks: the next one, until one fits.
  std::vector<Candidate> next_spare(const PlanRequest& request, const PlanSearchResult& known);
  /// Those of a search with less memory; empty where it is not needed.
  std::vector<PipelineCandidate> with_less_memory(const PlanSearchResult& known);
  /// The best candidate that is known; nullptr where it is no pipeline of this source.
  const PipelineCandidate* best_choice(const PlanSearchResult& known) const;
  std::vector<PipelineCandidate> neighbours(const PlanSearchResult& known);
  /// Those under 1f1b that do not compile under the schedule with which they were tried.
  std::vector<PipelineCandidate> with_whole_backward(const PlanSearchResult& known) const;
  /// The fastest pipelines with two stages on each device.
  std::vector<PipelineCandidate> with_two_stages(const PlanSearchResult& known);
  /// By level, what the estimate lacked of the memory of each rank, of the fastest pipeline with
  /// two stages on each device that does not fit and might be better than the best one, which takes
  /// n seconds; empty: none.
  std::vector<std::vector<double>> missed_of_splits(const PlanSearchResult& known,
                                                    double best) const;
  bool was_tried(const PipelineCandidate& choice) const;
  std::vector<Candidate> candidates(const PlanRequest& request,
                                    std::vector<PipelineCandidate> choices);

  bool was_asked_ = false;
  int searched_again_ = 0, neighbour_rounds_ = 0, splits_ = 0, last_rounds_ = 0;
  std::unique_ptr<MemoryStrategies> search_;
  std::map<std::string, PipelineCandidate> tried_;  // by the name of the candidate
  std::vector<PipelineCandidate> spare_;            // of more than SearchPolicy::many_ranks ranks
  std::set<std::string> searched_from_;             // those that did not fit
  std::string neighbours_of_;                       // the candidate whose neighbours were made last
};

}  // namespace tessera
