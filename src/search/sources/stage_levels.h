// The searches for pipelines of one deployment, by what they do to save memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "search/sources/equal_graphs.h"
#include "search/sources/stage_divisions.h"
#include "stage_search/stage_search.h"

namespace tessera {

/// A pipeline of one of several searches, which differ in how they save memory.
struct StagedChoice {
  PipelineChoice choice;
  size_t level = 0;
};

/// Of those estimated; infinite: there are none.
double least_seconds(const std::vector<StagedChoice>& choices);

/// Levels of saving. The first one does what is fixed, or keeps everything; of at most kManyRanks
/// ranks the second one has its states divided by dp (zero=1) in addition. Where memory binds
/// those, levels that compute results again in the backward follow, unless that is fixed.
class StageLevels {
 public:
  ///   requires  the request outlives it
  StageLevels(const PlanRequest& request, const PlanConstraints& constraints,
              StageSearchOptions options, Deployment deployment);

  size_t size() const { return levels_.size(); }
  StageSearch& stages(size_t level) { return levels_[level]->stages; }
  const StageDivisions& divisions(size_t level) const { return levels_[level]->divisions; }
  const PlanConstraints& constraints() const { return constraints_; }
  /// What the constraints fix.
  const Plan& decisions() const { return decisions_; }

  /// Where memory binds, those that fit if the estimates are too high come first; and those that
  /// compute results again follow.
  std::vector<StagedChoice> first();
  std::vector<StagedChoice> best_of(size_t level);
  /// Those of the levels that compute results again, when these were not searched yet.
  ///   withheld  as StageSearch::withhold
  std::vector<StagedChoice> of_further_levels(const std::vector<double>& withheld = {});
  /// The fastest ones with two stages on each device, of all levels; of further ones where memory
  /// binds those of the first ones.
  ///   best  seconds of the best known step, as they would be estimated
  std::vector<StagedChoice> splits(double best);

  /// Without those of the level of divided states in which no stage has any: the first level has
  /// them.
  std::vector<StagedChoice> of_level(size_t level, std::vector<PipelineChoice> choices) const;
  /// The fastest of those of equal ways: only their cuts and schedules differ.
  void keep_unlike(std::vector<StagedChoice>& list) const;
  /// Where devices are wanted, stages say which ones they have.
  void add_hardware(StagedChoice& staged) const;

  /// Do candidates take so long to simulate that only unlike ones are worth it? The cuts of the
  /// best one are moved later.
  bool takes_few() const;
  bool recomputes(size_t level) const { return level >= first_levels_; }
  /// How much slower than the best known one a candidate may be, estimated.
  double margin_of(size_t level) const;
  /// The same with two stages on each device.
  double split_margin_of(size_t level) const;
  /// For StageSearch::withhold: those fit whose estimates are too high.
  std::vector<double> memory_margin() const;

 private:
  struct Level {
    Level(StageLevels& all, const StageSavings& savings);

    const StageDivisions divisions;
    StageSearch stages;
  };
  using SearchOfLevel = std::function<std::vector<StagedChoice>(size_t)>;

  bool are_many() const;
  void add_level(const StageSavings& savings);
  std::vector<StagedChoice> with_margin(size_t level);
  /// Would there be faster ones than those of `list` on devices of any memory?
  bool binds(const SearchOfLevel& search, const std::vector<StagedChoice>& list);
  /// Of each level at least one: estimates of memory are not equally good.
  void keep_fastest(std::vector<StagedChoice>& list) const;

  const PlanRequest& request_;
  const PlanConstraints constraints_;
  const Plan decisions_;
  const Deployment deployment_;
  const std::shared_ptr<const ModelLine> line_;
  const StageSearchOptions options_;
  EqualGraphs graphs_;
  std::vector<std::unique_ptr<Level>> levels_;
  size_t first_levels_ = 0;  // those that are searched in any memory
};

}  // namespace tessera
