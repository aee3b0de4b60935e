// Pipelines that a search chooses from, and how much it tries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/pipeline.h"
#include "planner/pipeline/segment_costs.h"

namespace tessera {

/// The units [first_unit, end_unit) of the line on the ranks from `first` on.
struct StageChoice {
  int first_unit = 0, end_unit = 0;
  Rank first = 0;
  int stage_sharding = 0;  // index in the stage shardings
  UnitCost cost = {};
  double transfer = 0;        // seconds in which it receives what one micro-batch needs
  double capacity = 0;        // bytes of its smallest device
  std::string hardware = {};  // NamedMesh::hardware
  /// In a pipeline that is no chain: the earlier stages of which it reads results, ascending.
  std::vector<int> reads = {};

  int units() const { return end_unit - first_unit; }
};

/// The gradient of a variable that stages of two devices read, on its way to the one that updates
/// it.
struct SharedGradient {
  int from = 0, to = 0;  // stages
  double seconds = 0;
};

struct PipelineChoice {
  std::vector<StageChoice> stages;  // in program order
  int64_t micro_batches = 1;
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  double seconds = 0;  // of a step, estimated
  std::vector<SharedGradient> shared = {};
  /// Do the stages divide the ranks inside of each part of the data? Else a stage has neighbouring
  /// ranks. All stages have one stage sharding then.
  bool is_dp_outermost = false;
  /// Are its stages one after the other on the clock? Else they are of several branches, and
  /// StageChoice::reads says what they read.
  bool is_chain = true;

  /// A device is the ranks from one first rank on. With two stages on each, the second ones follow
  /// in the same order, or in the reverse one, which is a V.
  size_t devices() const;
  bool has_two_stages() const { return devices() < stages.size(); }
  bool is_v() const;
  size_t device_of(size_t stage) const;  // 0 for the first stage

  /// The same stages, whatever the micro-batches and the schedule.
  bool has_stages_of(const PipelineChoice& other) const;
  /// The same stage shardings on the same ranks with as many micro-batches, whatever the cuts and
  /// the schedule.
  bool has_stage_shardings_of(const PipelineChoice& other) const;
};

/// How much is tried: counts of work, so that the same inputs give the same result.
struct StageSearchEffort {
  int bisections = 12;  // of the time of the busiest stage
  /// Limits of the busiest stage that are tried, as multiples of the least that is possible.
  std::vector<double> slacks = {1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 2.0};
  size_t simulated = 8;  // pipelines that are put on the clock, for each one that is wanted
  size_t climbs = 6;     // pipelines from which neighbours are followed
  int steps = 16;        // how far

  /// For more than SearchPolicy::many_ranks ranks.
  static StageSearchEffort little() { return {6, {1.0, 1.05, 1.2}, 2, 1, 3}; }
};

/// The stage that has a unit is on some of the ranks only.
struct UnitRanks {
  int unit = 0;
  std::vector<bool> allows;  // by rank

  bool allows_all(Rank first, int size) const {
    return std::all_of(allows.begin() + first, allows.begin() + first + size,
                       [](bool allowed) { return allowed; });
  }
};

struct StageSearchOptions {
  std::vector<int64_t> micro_batches = {};   // the numbers that are tried
  std::vector<PipelineKind> schedules = {};  // that take one stage a device
  std::optional<int> stages = {};            // exactly so many
  std::vector<int> boundaries = {};          // units at which a stage begins
  std::vector<UnitRanks> ranks = {};         // of some units
  /// By unit: how much of the time of a stage that begins with it counts in that of one micro-batch
  /// through all stages; empty: all of it.
  std::vector<double> chain_weights = {};
  int min_stages = 2;
  int max_stages = 16;
  size_t max_results = 6;
  StageSearchEffort effort = {};
};

/// The way of all stages and their number; empty: stages may differ.
struct EqualStages {
  std::optional<int> stage_sharding = {}, stages = {};
};

}  // namespace tessera
