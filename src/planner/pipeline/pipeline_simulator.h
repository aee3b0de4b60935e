// Pipelines on the simulated clock of schedules (compiler/schedule/clock.h): the time of a step and
// the memory of devices. This file knows the costs of stages, and no graphs or clusters.
#pragma once

#include <optional>
#include <vector>

#include "compiler/schedule/named_orders.h"
#include "planner/pipeline/layer_sequence.h"
#include "planner/pipeline/pipeline_choice.h"

namespace tessera {

/// The time of a step on the simulated clock, where every stage does what is once for a step at its
/// end, and what waits for all units when all stages are there; nullopt when the schedule does not
/// fit the stages, or a device has not the memory.
std::optional<double> simulated_seconds(const PipelineChoice& choice);

/// The choice under a schedule, with that time and with what its stages read; nullopt, too, for a
/// schedule that takes only chains where they are none.
std::optional<PipelineChoice> simulate_pipeline(const LayerSequence& sequence,
                                                PipelineChoice choice, PipelineKind schedule);

/// The most bytes that the devices of each stage hold at once on the simulated clock; empty when
/// simulated_seconds are none.
std::vector<double> simulated_memory(const PipelineChoice& choice);

/// Does every stage read a result of the one before it? Schedules that split the backward, and
/// those of two stages on each device, take no other stages.
bool is_chain(const LayerSequence& sequence, const PipelineChoice& choice);

/// The choice with what its stages read, where the line has branches. Stages that have labels only,
/// which have no gradient, count as ones that read the stage before them.
PipelineChoice with_reads(const LayerSequence& sequence, PipelineChoice choice);

/// Pipelines that differ in cuts only, under a schedule whose order of passes does not depend on
/// their times: it is made once.
class PipelineSimulator {
 public:
  /// The first one of them.
  ///   requires  its schedule is not eager-1f1b or auto, and fits its stages
  explicit PipelineSimulator(const PipelineChoice& choice);

  struct Step {
    double missing = 0;  // bytes of all devices; 0: all fit
    double seconds = 0;  // as simulated_seconds in any memory

    auto operator<=>(const Step&) const = default;
  };
  ///   requires  as many stages, on the same ranks, with as many micro-batches
  Step run(const PipelineChoice& choice) const;

 private:
  DeviceOrders orders_;
};

}  // namespace tessera
