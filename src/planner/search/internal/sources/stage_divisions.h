// A model divided by the axes of presets, for the search for pipelines.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "planner/pipeline/segment_costs.h"
#include "planner/search/internal/sources/graph_interner.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// What every stage of a pipeline does for less memory.
struct MemoryStrategy {
  Recompute recompute = {};
  int zero = 0;  // of the stages with dp, as Preset::zero
};

/// The units of which stages are made.
std::shared_ptr<const LayerSequence> stage_line(const PlanRequest& request,
                                                const PlanConstraints& constraints);

/// The model in all divisions that stages may have: degrees of dp, sp and tp whose product is less
/// than the ranks, in every stage those that are fixed. An axis that the model cannot have is left
/// out.
///
/// Of more than SearchPolicy::many_ranks ranks the product is that of a run of `runs`, all ranks
/// among them; tp is limited by SearchPolicy::operator_machines, dp by the rows of a micro-batch,
/// and sp is 1 unless it is fixed: the ranks of sp do not behave alike, so that each of them is
/// simulated.
class StageDivisions {
 public:
  /// The request and its graph outlive it.
  ///   micro_batches  a number that divides the batch, above 1
  ///   memory_strategy costs and memory are those of the graph that recomputation leaves
  ///   line           stage_line() of the request and the constraints, which others may have, too
  ///   graphs         where the graphs of its models are kept, with those of others
  StageDivisions(const PlanRequest& request, const PlanConstraints& constraints,
                 std::shared_ptr<const LayerSequence> sequence, const DeviceRuns& runs,
                 int64_t micro_batches, const MemoryStrategy& memory_strategy,
                 GraphInterner& graphs);
  StageDivisions(const StageDivisions&) = delete;  // the stage shardings refer to its models
  StageDivisions& operator=(const StageDivisions&) = delete;

  const LayerSequence& sequence() const { return *sequence_; }
  const std::vector<StageSharding>& stage_shardings() const { return stage_shardings_; }
  const MemoryStrategy& memory_strategy() const { return strategy_; }
  /// The units at which stages have to begin: after the boundaries of the constraints.
  const std::vector<int>& boundaries() const { return boundaries_; }

 private:
  using Degrees = std::vector<int64_t>;  // of dp, sp and tp

  void add_models(const PlanRequest& request, const std::vector<Degrees>& wanted,
                  int64_t micro_batches, GraphInterner& graphs);

  const MemoryStrategy strategy_;
  const std::shared_ptr<const LayerSequence> sequence_;
  std::vector<int> boundaries_;
  std::vector<std::shared_ptr<const Graph>> graphs_;  // those of the models
  /// By the axes that have two parts.
  std::map<Degrees, std::unique_ptr<const DividedModel>> models_;
  std::vector<StageSharding> stage_shardings_;
};

}  // namespace tessera
