// The searches for pipelines of one deployment, by what they do to save memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/pipeline/stage_search.h"
#include "planner/search/internal/sources/graph_interner.h"
#include "planner/search/internal/sources/stage_divisions.h"

namespace tessera {

/// A pipeline of one of several searches, which differ in how they save memory.
struct PipelineCandidate {
  PipelineChoice choice;
  size_t strategy = 0;
};

/// Of those estimated; infinite: there are none.
double min_seconds(const std::vector<PipelineCandidate>& choices);

/// Memory strategies. The first one does what is fixed, or keeps everything; of at most
/// SearchPolicy::many_ranks ranks the second one has its states divided by dp (zero=1) in addition.
/// Where memory binds those, levels that compute results again in the backward follow, unless that
/// is fixed.
class MemoryStrategies {
 public:
  ///   requires  the request outlives it
  MemoryStrategies(const PlanRequest& request, const PlanConstraints& constraints,
                   StageSearchOptions options, Deployment deployment);

  size_t size() const { return searches_.size(); }
  StageSearch& stages(size_t strategy) { return searches_[strategy]->stages; }
  const StageDivisions& divisions(size_t strategy) const { return searches_[strategy]->divisions; }
  const PlanConstraints& constraints() const { return constraints_; }
  /// What the constraints fix.
  const Plan& decisions() const { return decisions_; }

  /// Where memory binds, those that fit if the estimates are too high come first; and those that
  /// compute results again follow.
  std::vector<PipelineCandidate> first();
  std::vector<PipelineCandidate> best_of(size_t strategy);
  /// Those of the levels that compute results again, when these were not searched yet.
  ///   reserved_memory  as StageSearch::reserve_memory
  std::vector<PipelineCandidate> of_recomputing_strategies(
      const std::vector<double>& reserved_memory = {});
  /// The fastest ones with two stages on each device, of all levels; of further ones where memory
  /// binds those of the first ones.
  ///   best  seconds of the best known step, as they would be estimated
  std::vector<PipelineCandidate> splits(double best);

  /// Without those of the level of divided states in which no stage has any: the first level has
  /// them.
  std::vector<PipelineCandidate> of_strategy(size_t strategy,
                                             std::vector<PipelineChoice> choices) const;
  /// The fastest of those of equal stage shardings: only their cuts and schedules differ.
  void keep_distinct(std::vector<PipelineCandidate>& list) const;
  /// Where devices are wanted, stages say which ones they have.
  void add_hardware(PipelineCandidate& staged) const;

  /// Do candidates take so long to simulate that only distinct ones are worth it? The cuts of the
  /// best one are moved later.
  bool simulates_few() const;
  bool recomputes(size_t strategy) const { return strategy >= first_strategies_; }
  /// How much slower than the best known one a candidate may be, estimated.
  double margin_of(size_t strategy) const;
  /// The same with two stages on each device.
  double split_margin_of(size_t strategy) const;
  /// For StageSearch::reserve_memory: those fit whose estimates are too high.
  std::vector<double> memory_margin() const;

 private:
  struct StrategySearch {
    StrategySearch(MemoryStrategies& all, const MemoryStrategy& memory_strategy);

    const StageDivisions divisions;
    StageSearch stages;
  };
  using SearchOfStrategy = std::function<std::vector<PipelineCandidate>(size_t)>;

  bool are_many() const;
  void add_strategy(const MemoryStrategy& memory_strategy);
  std::vector<PipelineCandidate> with_margin(size_t strategy);
  /// Would there be faster ones than those of `list` on devices of any memory?
  bool binds(const SearchOfStrategy& search, const std::vector<PipelineCandidate>& list);
  /// Of each level at least one: estimates of memory are not equally good.
  void keep_fastest(std::vector<PipelineCandidate>& list) const;

  const PlanRequest& request_;
  const PlanConstraints constraints_;
  const Plan decisions_;
  const Deployment deployment_;
  const std::shared_ptr<const LayerSequence> sequence_;
  const StageSearchOptions options_;
  GraphInterner graphs_;
  std::vector<std::unique_ptr<StrategySearch>> searches_;
  size_t first_strategies_ = 0;  // those that are searched in any memory
};

}  // namespace tessera
