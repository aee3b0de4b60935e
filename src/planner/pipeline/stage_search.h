// The search for the stages of a pipeline: where a model is cut, on which ranks each part runs, how
// it is divided over them, how many micro-batches there are, and in which order they run. This
// module knows graphs, clusters and prices; it knows no configurations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/pipeline/device_runs.h"
#include "planner/pipeline/internal/balanced_devices.h"
#include "planner/pipeline/layer_sequence.h"
#include "planner/pipeline/pipeline_choice.h"
#include "planner/pipeline/segment_costs.h"
#include "simulator/step/deployment.h"

namespace tessera {

/// Searches pipelines on all ranks of a deployment.
///
/// The time of a step under 1f1b is that of one micro-batch through all stages, and of the others
/// on the busiest stage. For several limits of the time of the busiest stage, the least sum of the
/// others is found by dynamic programming over (stages to the end, unit, rank). A stage has the
/// fastest stage sharding whose memory fits with min(micro-batches, stages to the end) of them in
/// flight. It is done twice, with the weight gradients in the chain of the first micro-batch and
/// without them; and with branches (LayerSequence::branches) for each of them as the longest one,
/// where stages end with their branch. The simulated clock (compiler/schedule/clock.h) then orders
/// what was found, under each schedule; stages that do not read each other run beside each other
/// there. From the best ones the search goes on to faster neighbours.
///
///   cuts     between any two units; the ranks of a stage are a run of DeviceRuns
///   ranks    of more than SearchPolicy::many_ranks all stages have one stage sharding, so that
///   ranks behave
///            alike and one of them is simulated for many; and dp is the outermost axis where that
///            is faster
///   ensures  the same inputs give the same result
///   threads  starts up to as many as there are cores
///   source   Zheng et al., Alpa (OSDI 2022), section 5
///   time     O(limits x stages x units^2 x ranks x sizes of runs) for each number of micro-batches
class StageSearch {
 public:
  /// All but the options outlive it.
  StageSearch(const LayerSequence& sequence, const std::vector<StageSharding>& stage_shardings,
              const Deployment& deployment, StageSearchOptions options);

  /// Those of least estimated time, in ascending order; then two of one micro-batch, when it is
  /// among the numbers; empty when nothing fits. Of pipelines that
  /// differ in cuts and schedule only there are at most two.
  std::vector<PipelineChoice> best();
  /// Would a single stage of all units fit in every stage sharding, with as many micro-batches in
  /// flight as a schedule may have? Then best() does not depend on the memory.
  bool fits_in_one_stage();
  /// From now on a stage has n bytes less: the most of its ranks. What is estimated for a
  /// stage lacks as much of what its program needs.
  ///   bytes  by rank; empty: none
  void reserve_memory(std::vector<double> bytes) { reserved_memory_ = std::move(bytes); }
  /// A cut, or two next to each other, are moved by up to two units, a stage has another stage
  /// sharding, or the number of micro-batches or the schedule is another one. In ascending order of
  /// the estimated time.
  std::vector<PipelineChoice> neighbours(const PipelineChoice& choice);
  /// The pipeline with two stages on the ranks of each stage, in turn under `interleaved` and in a
  /// V under zb-v and v-half, with the fastest cuts on the clock that a number of trials finds. In
  /// ascending order of the estimated time; empty where there are not enough units or memory, or
  /// one micro-batch.
  std::vector<PipelineChoice> with_two_stages(const PipelineChoice& choice);
  /// The fastest of all pipelines with two stages on each device that have the ranks, stage
  /// shardings and numbers of micro-batches of those that best() made last, whether these are fast
  /// or not, or one stage sharding in all stages: with two stages the bubble of many stages or
  /// few micro-batches is smaller. In ascending order of the estimated time, without those that
  /// take more than `limit` seconds.
  std::vector<PipelineChoice> best_with_two_stages(double limit);

 private:
  class CutDescent;

  const SegmentCosts& costs_of(int64_t micro_batches);
  bool may_have_two_stages(const PipelineChoice& choice) const;
  /// With a second stage on the ranks of each one, cut in some ways; a rough one is cut in one
  /// stage sharding. Empty where the units are too few, are no chain, or may not be on these ranks.
  std::vector<PipelineChoice> split_in_two(const PipelineChoice& choice, PipelineKind schedule,
                                           bool is_rough);
  /// Pipelines of which only ranks, stage shardings and micro-batches count.
  std::vector<PipelineChoice> chains_to_split();
  SplitStages split_stages(const PipelineChoice& split);
  /// With the fastest cuts that a number of trials finds.
  std::optional<PipelineChoice> best_split(const PipelineChoice& choice, PipelineKind schedule);
  /// Has each stage units, which may be together and on its ranks?
  bool may_be(const PipelineChoice& choice) const;
  /// With the costs of each stage, and the gradients that stages share.
  PipelineChoice priced(PipelineChoice choice);
  void set_shared(PipelineChoice& choice);
  /// The first ones of shortest_chains for all counts, in ascending order of their times.
  std::vector<PipelineChoice> shortest(const std::vector<int64_t>& counts,
                                       const StageSearchOptions& options);
  std::vector<PipelineChoice> best_of(const std::vector<int64_t>& counts, size_t largest);
  std::vector<EqualStages> equal_stages() const;
  void keep_distinct_chains(const std::vector<PipelineChoice>& chains);
  /// Adds the best neighbour, its best neighbour and so on, until none is faster.
  void climb(PipelineChoice choice, std::vector<PipelineChoice>& list);
  std::vector<PipelineChoice> with_other_cuts(const PipelineChoice& choice) const;
  std::vector<PipelineChoice> with_other_stage_shardings(const PipelineChoice& choice) const;
  /// Those with dp outermost that are faster replace these.
  void try_dp_outermost(std::vector<PipelineChoice>& choices);
  std::optional<PipelineChoice> with_dp_outermost(PipelineChoice choice);

  const LayerSequence& sequence_;
  const std::vector<StageSharding>& stage_shardings_;
  const Deployment& deployment_;
  const StageSearchOptions options_;
  const DeviceRuns runs_;
  std::vector<double> reserved_memory_;                           // by rank
  std::map<int64_t, std::unique_ptr<const SegmentCosts>> costs_;  // by micro-batches
  std::vector<PipelineChoice>
      chains_;  // of best(): the first one of each stage shardings and micro-batches
};

/// The ranks of a stage: neighbours from its first one on; or of each part of the data as many
/// neighbours as it has there.
///   example  dp=2, tp=2 in two stages with dp outermost: {0, 1, 4, 5} and {2, 3, 6, 7}
MeshPtr mesh_of(const PipelineChoice& choice, size_t stage,
                const std::vector<StageSharding>& stage_shardings);

}  // namespace tessera
