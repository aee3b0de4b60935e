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

#include "prediction/deployment.h"
#include "schedule/named_orders.h"
#include "stage_search/device_runs.h"
#include "stage_search/model_line.h"
#include "stage_search/segment_costs.h"

namespace tessera {

/// The units [first_unit, end_unit) of the line on the ranks from `first` on.
struct StageChoice {
  int first_unit = 0, end_unit = 0;
  Rank first = 0;
  int way = 0;  // index in the ways
  UnitCost cost = {};
  double transfer = 0;  // seconds in which it receives what one micro-batch needs
  double capacity = 0;  // bytes of its smallest device

  int units() const { return end_unit - first_unit; }
};

struct PipelineChoice {
  std::vector<StageChoice> stages;  // in program order
  int64_t micro_batches = 1;
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  double seconds = 0;  // of a step, estimated
  /// Do the stages divide the ranks inside of each part of the data? Else a stage has neighbouring
  /// ranks. All stages have one way then.
  bool has_data_outside = false;

  /// The same stages, whatever the micro-batches and the schedule.
  bool has_stages_of(const PipelineChoice& other) const;
  /// The same ways on the same ranks with as many micro-batches, whatever the cuts and the
  /// schedule.
  bool has_ways_of(const PipelineChoice& other) const;
};

/// How much is tried: counts of work, so that the same inputs give the same answer.
struct StageSearchEffort {
  int bisections = 12;  // of the time of the busiest stage
  /// Limits of the busiest stage that are tried, as multiples of the least that is possible.
  std::vector<double> slacks = {1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 2.0};
  size_t clocked = 8;  // pipelines that are put on the clock, for each one that is wanted
  size_t climbs = 6;   // pipelines from which neighbours are followed
  int steps = 16;      // how far

  /// For more than kManyRanks ranks.
  static StageSearchEffort little() { return {6, {1.0, 1.05, 1.2}, 2, 1, 3}; }
};

struct StageSearchOptions {
  std::vector<int64_t> micro_batches = {};   // the numbers that are tried
  std::vector<PipelineKind> schedules = {};  // that take one stage a device
  std::optional<int> stages = {};            // exactly so many
  std::vector<int> boundaries = {};          // units at which a stage begins
  int min_stages = 2;
  int max_stages = 16;
  size_t max_answers = 6;
  StageSearchEffort effort = {};
};

/// The way of all stages and their number; empty: stages may differ.
struct EqualStages {
  std::optional<int> way = {}, stages = {};
};

/// Searches pipelines on all ranks of a deployment.
///
/// The time of a step under 1f1b is that of one micro-batch through all stages, and of the others
/// on the busiest stage. For several limits of the time of the busiest stage, the least sum of the
/// others is found by dynamic programming over (stages to the end, unit, rank). A stage has the
/// fastest way whose memory fits with min(micro-batches, stages to the end) of them in flight.
/// It is done twice, with the weight gradients in the chain of the first micro-batch and without
/// them. The simulated clock (schedule/clock.h) then orders what was found, under each schedule.
/// From the best ones the search goes on to faster neighbours.
///
///   cuts     between any two units; the ranks of a stage are a run of DeviceRuns
///   ranks    of more than kManyRanks all stages have one way, so that ranks behave alike and one
///            of them is simulated for many; and the data is outside of the stages where that is
///            faster
///   ensures  the same inputs give the same answer
///   threads  starts up to as many as there are cores
///   source   Zheng et al., Alpa (OSDI 2022), section 5
///   time     O(limits x stages x units^2 x ranks x sizes of runs) for each number of micro-batches
class StageSearch {
 public:
  /// All but the options outlive it.
  StageSearch(const ModelLine& line, const std::vector<StageWay>& ways,
              const Deployment& deployment, StageSearchOptions options);

  /// Those of least estimated time, in ascending order; then two of one micro-batch, when it is
  /// among the numbers; empty when nothing fits. Of pipelines that
  /// differ in cuts and schedule only there are at most two.
  std::vector<PipelineChoice> best();
  /// From now on a stage has so many bytes less: the most of its ranks. What is estimated for a
  /// stage lacks as much of what its program needs.
  ///   bytes  by rank; empty: none
  void withhold(std::vector<double> bytes) { withheld_ = std::move(bytes); }
  /// A cut, or two next to each other, are moved by up to two units, a stage has another way, or
  /// the number of micro-batches or the schedule is another one. In ascending order of the
  /// estimated time.
  std::vector<PipelineChoice> neighbours(const PipelineChoice& choice);

 private:
  const SegmentCosts& costs_of(int64_t micro_batches);
  /// With the costs of each stage.
  PipelineChoice priced(PipelineChoice choice);
  /// Adds the best neighbour, its best neighbour and so on, until none is faster.
  std::vector<PipelineChoice> best_of(const std::vector<int64_t>& counts, size_t most);
  std::vector<EqualStages> equal_stages() const;
  void climb(PipelineChoice choice, std::vector<PipelineChoice>& list);
  std::vector<PipelineChoice> with_other_cuts(const PipelineChoice& choice) const;
  std::vector<PipelineChoice> with_other_ways(const PipelineChoice& choice) const;
  /// Those with the data outside that are faster stand in for these.
  void place_data_outside(std::vector<PipelineChoice>& choices);
  std::optional<PipelineChoice> with_data_outside(PipelineChoice choice);

  const ModelLine& line_;
  const std::vector<StageWay>& ways_;
  const Deployment& deployment_;
  const StageSearchOptions options_;
  const DeviceRuns runs_;
  std::vector<double> withheld_;                                  // by rank
  std::map<int64_t, std::unique_ptr<const SegmentCosts>> costs_;  // by micro-batches
};

/// The ranks of a stage: neighbours from its first one on; or of each part of the data as many
/// neighbours as it has there.
///   example  dp=2, tp=2 in two stages with the data outside: {0, 1, 4, 5} and {2, 3, 6, 7}
MeshPtr mesh_of(const PipelineChoice& choice, size_t stage, const std::vector<StageWay>& ways);

/// The time of a step on the simulated clock, where every stage does what is once for a step at its
/// end; nullopt when the schedule does not fit the stages, or a device has not the memory.
std::optional<double> clock_seconds(const PipelineChoice& choice);

/// The most bytes that each stage holds at once on the simulated clock; empty when clock_seconds
/// are none.
std::vector<double> clock_memory(const PipelineChoice& choice);

}  // namespace tessera
